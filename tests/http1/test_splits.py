"""However the network cuts an answer into reads, the result is the same.

These drive a connection without a socket: TCP would join what was meant to be apart.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.http1.connection import Connection
from gateway.http1.errors import ClientError
from gateway.http1.host import Host
from gateway.http1.response import Response
from gateway.outbox import Outbox
from tests import captures
from tests.http1.test_answers import BROKEN_BODY, BROKEN_HEAD, CUT, WHOLE, WHOLE_AT_THE_CLOSE

TABLE = (
    [raw for raw, _, _ in (*WHOLE.values(), *WHOLE_AT_THE_CLOSE.values())]
    + [*CUT.values(), *BROKEN_HEAD.values(), *BROKEN_BODY.values()]
)  # fmt: skip


class StillTransport:
    """A transport that sends nothing anywhere."""

    def __init__(self) -> None:
        self.closing = False

    def is_closing(self) -> bool:
        return self.closing

    def write(self, data: bytes) -> None:
        """Dropped."""

    def abort(self) -> None:
        self.closing = True

    def pause_reading(self) -> None:
        """Reads come as the test gives them."""

    resume_reading = pause_reading

    def get_write_buffer_size(self) -> int:
        return 0

    def get_extra_info(self, name: str) -> None:
        """There is no socket."""


@dataclass(frozen=True)
class Outcome:
    """What a caller is told in the end."""

    status: int
    headers: tuple[tuple[bytes, bytes], ...]
    body: bytes
    error: type[BaseException] | None
    reusable: bool


async def _feed(pieces: list[bytes]) -> Outcome:
    connection, answer = Connection(Host("engine", 60.0, Outbox())), Response()
    transport = StillTransport()
    connection.connection_made(cast(Any, transport))
    connection.send(b"", b"", answer)
    for piece in pieces:
        if not transport.closing:
            connection.data_received(piece)
    if not transport.closing:
        connection.eof_received()
    reusable = connection.usable()
    connection.connection_lost(None)
    return await _outcome(answer, reusable)


async def _outcome(answer: Response, reusable: bool) -> Outcome:
    body, error = b"", None
    try:
        await answer.head()
        while piece := await answer.read():
            body += piece
    except ClientError as raised:
        error = type(raised)
    return Outcome(answer.status, tuple(answer.headers), body, error, reusable)


def outcome(*pieces: bytes) -> Outcome:
    """What becomes of an answer that arrives in these reads, and then an orderly close."""
    return asyncio.run(_feed(list(pieces)))


@pytest.mark.parametrize("raw", TABLE)
def test_one_byte_a_read_gives_the_same_as_one_read(raw: bytes) -> None:
    together = outcome(raw)

    apart = outcome(*(raw[i : i + 1] for i in range(len(raw))))

    assert _known(apart) == _known(together)


@pytest.mark.parametrize("raw", [*(r for r, _, _ in WHOLE.values()), *CUT.values()])
def test_a_cut_at_any_byte_gives_the_same_as_none(raw: bytes) -> None:
    together = outcome(raw)

    assert {outcome(raw[:i], raw[i:]) for i in range(1, len(raw))} <= {together}


def _known(got: Outcome) -> Outcome:
    """Without `reusable`: what comes after an answer may come too late to be seen with it."""
    return Outcome(got.status, got.headers, got.body, got.error, reusable=False)


names = st.from_regex(rb"\A[A-Za-z][A-Za-z0-9-]{0,12}\Z").filter(
    lambda n: n.lower() not in (b"content-length", b"transfer-encoding", b"connection", b"upgrade")
)
values = st.from_regex(rb"\A([!-~\x80-\xff]([ -~\t]{0,12}[!-~])?)?\Z")
header_lists = st.lists(st.tuples(names, values), max_size=6)


@st.composite
def answers(draw: st.DrawFn) -> tuple[bytes, Outcome]:
    """A valid answer, and what it means, by construction."""
    headers = draw(header_lists)
    pieces = draw(st.lists(st.binary(min_size=1, max_size=40), max_size=5))
    body = b"".join(pieces)
    framing = draw(st.sampled_from(["length", "chunks", "close"]))
    trailers = draw(header_lists) if framing == "chunks" else []
    if framing == "length":
        extra, wire = [(b"Content-Length", b"%d" % len(body))], body
    elif framing == "chunks":
        extension = draw(st.sampled_from([b"", b";a=b", b';q="x"']))
        chunks = [b"%x%s\r\n%s\r\n" % (len(p), extension, p) for p in pieces]
        wire = b"".join([*chunks, b"0\r\n", *map(_line, trailers), b"\r\n"])
        extra = [(b"Transfer-Encoding", b"chunked")]
    else:
        extra, wire = [], body
    at = draw(st.integers(0, len(headers)))
    headers = [*headers[:at], *extra, *headers[at:]]
    status = draw(st.sampled_from([200, 201, 400, 404, 429, 500, 503]))
    interim = draw(st.sampled_from([b"", b"HTTP/1.1 100 Continue\r\n\r\n"]))
    raw = b"%sHTTP/1.1 %d Some Reason\r\n%s\r\n" % (interim, status, b"".join(map(_line, headers)))
    shown = tuple((name.lower(), value.rstrip(b" \t")) for name, value in headers)
    reusable = framing != "close" and not trailers
    return raw + wire, Outcome(status, shown, body, None, reusable)


def _line(header: tuple[bytes, bytes]) -> bytes:
    return b"%s: %s\r\n" % header


def _cut(raw: bytes, cuts: list[int]) -> list[bytes]:
    at = sorted({cut % len(raw) for cut in cuts} | {0, len(raw)})
    return [raw[a:b] for a, b in zip(at, at[1:], strict=False)]


@settings(max_examples=300, deadline=None)
@given(answers(), st.lists(st.integers(0, 2000), max_size=12))
def test_a_valid_answer_means_what_it_says_however_it_is_cut(
    made: tuple[bytes, Outcome], cuts: list[int]
) -> None:
    raw, meaning = made

    assert outcome(*_cut(raw, cuts)) == meaning


@settings(max_examples=300, deadline=None)
@given(answers(), st.lists(st.integers(0, 2000), max_size=6), st.data())
def test_a_damaged_answer_gives_the_same_however_it_is_cut_and_no_control_character(
    made: tuple[bytes, Outcome], cuts: list[int], data: st.DataObject
) -> None:
    raw = bytearray(made[0])
    for _ in range(data.draw(st.integers(1, 3))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))

    together, apart = outcome(bytes(raw)), outcome(*_cut(bytes(raw), cuts))

    assert _known(apart) == _known(together)
    for name, value in together.headers:
        assert not any(c < 32 or c == 127 for c in name)
        assert not any((c < 32 and c != 9) or c == 127 for c in value)


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(captures.every()), st.lists(st.integers(0, 100_000), max_size=20))
def test_a_recorded_answer_is_the_same_however_it_is_cut(
    capture: captures.Capture, cuts: list[int]
) -> None:
    assert _known(outcome(*_cut(capture.raw, cuts))) == _known(outcome(capture.raw))
