"""What a scripted engine does with one request: steps, written down as data.

An answer is a tuple of steps, done in order. The helpers below make the usual ones; a test that
needs exact bytes writes the steps itself.
"""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Send:
    """Write these bytes, in one write, or in pieces of `piece` bytes, each a write of its own."""

    data: bytes
    piece: int | None = None


@dataclass(frozen=True, slots=True)
class Pause:
    """Stay quiet for a time that belongs to the case. Never used to wait for something."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Hold:
    """Stay quiet until the test sets the gate."""

    gate: asyncio.Event


@dataclass(frozen=True, slots=True)
class Close:
    """Close the connection in the ordinary way (FIN)."""


@dataclass(frozen=True, slots=True)
class Reset:
    """Reset the connection (RST, by SO_LINGER 0)."""


@dataclass(frozen=True, slots=True)
class Silence:
    """Say nothing more, and keep the connection open until the peer closes it."""


Step = Send | Pause | Hold | Close | Reset | Silence
Answer = tuple[Step, ...]
Headers = Sequence[tuple[str, str]]

REASONS = {200: "OK", 307: "Temporary Redirect", 400: "Bad Request", 429: "Too Many Requests"}


def head(
    status: int = 200,
    headers: Headers = (),
    *,
    content_type: str | None = "application/json",
    length: int | None = None,
    chunked: bool = False,
) -> bytes:
    """An HTTP response head. Without `length` and `chunked` the body ends with the connection."""
    lines = [f"HTTP/1.1 {status} {REASONS.get(status, 'Status')}"]
    if content_type is not None:
        lines.append(f"content-type: {content_type}")
    lines += [f"{name}: {value}" for name, value in headers]
    if chunked:
        lines.append("transfer-encoding: chunked")
    elif length is not None:
        lines.append(f"content-length: {length}")
    else:
        lines.append("connection: close")
    return "\r\n".join((*lines, "", "")).encode()


def reply(
    body: bytes | str | dict[str, Any] | list[Any],
    status: int = 200,
    headers: Headers = (),
    *,
    content_type: str | None = "application/json",
    says_length: int | None = None,
) -> Answer:
    """A whole answer. `says_length` is a Content-Length that lies; the connection then closes."""
    if isinstance(body, dict | list):
        body = json.dumps(body, ensure_ascii=False)
    data = body.encode() if isinstance(body, str) else body
    length = len(data) if says_length is None else says_length
    steps: Answer = (
        Send(head(status, headers, content_type=content_type, length=length)),
        Send(data),
    )
    return steps if says_length is None else (*steps, Close())


def error(
    status: int,
    message: str = "the engine says no",
    *,
    kind: str = "EngineError",
    code: int | str | None = None,
    retry_after: str | None = None,
    headers: Headers = (),
) -> Answer:
    """An error in OpenAI's envelope. `retry_after` is the header's text, in any of its forms."""
    body = {"error": {"message": message, "type": kind, "param": None, "code": code or status}}
    if retry_after is not None:
        headers = (*headers, ("retry-after", retry_after))
    return reply(body, status, headers)


Part = bytes | Step


def stream(
    parts: Iterable[Part],
    *,
    status: int = 200,
    headers: Headers = (),
    end: bool = True,
    content_type: str = "text/event-stream; charset=utf-8",
) -> Answer:
    """A chunked stream: each bytes part is one chunk and one write; other parts are steps.

    `end=False` leaves the last chunk out, and leaves the connection to the steps that follow.
    """
    steps: list[Step] = [Send(head(status, headers, content_type=content_type, chunked=True))]
    for part in parts:
        steps.append(Send(chunk(part)) if isinstance(part, bytes) else part)
    if end:
        steps.append(Send(b"0\r\n\r\n"))
    return tuple(steps)


def chunk(data: bytes) -> bytes:
    """One chunk of a chunked body."""
    return b"%x\r\n%b\r\n" % (len(data), data)


def raw(data: bytes, *, pieces: Sequence[int] = (), piece: int | None = None) -> Answer:
    """Exact bytes. `pieces` are offsets to cut at; `piece` is a size; each part is a write."""
    cuts = [0, *pieces, len(data)]
    return tuple(
        Send(data[start:end], piece) for start, end in itertools.pairwise(cuts) if start != end
    )


def bytewise(answer: Answer) -> Answer:
    """The same answer, one byte a write."""
    return tuple(Send(step.data, 1) if isinstance(step, Send) else step for step in answer)


def spaced(parts: Iterable[bytes], pause_s: float) -> list[Part]:
    """Parts for `stream` with a pause before each."""
    out: list[Part] = []
    for part in parts:
        out += [Pause(pause_s), part]
    return out


SILENT: Answer = (Silence(),)
RESET: Answer = (Reset(),)
CLOSED: Answer = (Close(),)
