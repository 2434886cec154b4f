"""What counts as an answer, and what does not: each kind of framing, whole, cut and broken."""

from __future__ import annotations

import pytest

from gateway.http1.client import Client
from gateway.http1.connection import MAX_HEAD_BYTES
from gateway.http1.errors import BadAnswer, NoAnswer, Truncated
from tests.http1.peer import OK, answering, ask, peer, rest, whole

CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n"
SIZED = OK + b"Content-Length: 5\r\n\r\n"

WHOLE = {
    "chunked": (CHUNKED + b"2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n", 200, b"hello"),
    "chunks with extensions": (CHUNKED + b'5;a=b;c="d"\r\nhello\r\n0;z\r\n\r\n', 200, b"hello"),
    "a chunk size in capitals, padded": (
        CHUNKED + b"00A  \r\n0123456789\r\n0\r\n\r\n",
        200,
        b"0123456789",
    ),
    "trailing headers": (CHUNKED + b"5\r\nhello\r\n0\r\nX-Sum: 1\r\nX-B: 2\r\n\r\n", 200, b"hello"),
    "a length": (SIZED + b"hello", 200, b"hello"),
    "a length of 0": (OK + b"Content-Length: 0\r\n\r\n", 200, b""),
    "no reason phrase": (b"HTTP/1.1 429\r\nContent-Length: 2\r\n\r\nno", 429, b"no"),
    "lines that end in LF": (b"HTTP/1.1 200 OK\nContent-Length: 2\n\nhi", 200, b"hi"),
    "interim answers": (
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n"
        + SIZED
        + b"hello",
        200,
        b"hello",
    ),
    "204": (b"HTTP/1.1 204 No Content\r\n\r\n", 204, b""),
    "304 with a length": (b"HTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\n\r\n", 304, b""),
    "a redirect, not followed": (
        b"HTTP/1.1 307 X\r\nLocation: http://x/\r\nContent-Length: 0\r\n\r\n",
        307,
        b"",
    ),
}

WHOLE_AT_THE_CLOSE = {
    "a body that ends with the connection": (OK + b"\r\nhello", 200, b"hello"),
    "Connection: close with a length": (
        OK + b"Connection: close\r\nContent-Length: 5\r\n\r\nhello",
        200,
        b"hello",
    ),
    "HTTP/1.0": (b"HTTP/1.0 200 OK\r\n\r\nhello", 200, b"hello"),
    "HTTP/1.0 with a length": (b"HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\nhello", 200, b"hello"),
    "an empty body that ends with the connection": (OK + b"\r\n", 200, b""),
    "more than the length": (SIZED + b"hello, world", 200, b"hello"),
    "more than the last chunk": (CHUNKED + b"5\r\nhello\r\n0\r\n\r\nmore", 200, b"hello"),
    "two answers": (SIZED + b"hello" + SIZED + b"again", 200, b"hello"),
}

CUT = {
    "a short body": SIZED + b"hell",
    "within a chunk": CHUNKED + b"5\r\nhel",
    "between two chunks": CHUNKED + b"2\r\nhe\r\n",
    "within a chunk's size": CHUNKED + b"2\r\nhe\r\n1",
    "before the last chunk's blank line": CHUNKED + b"5\r\nhello\r\n0\r\n",
    "within the trailers": CHUNKED + b"5\r\nhello\r\n0\r\nX-Sum: 1\r\n",
    "before any body": CHUNKED,
}

BROKEN_HEAD = {
    "not HTTP": b"SSH-2.0-OpenSSH_9.2\r\n",
    "HTTP/2": b"\x00\x00\x12\x04\x00\x00\x00\x00\x00",
    "a status of two digits": b"HTTP/1.1 20 OK\r\n\r\n",
    "a status of four digits": b"HTTP/1.1 2000 OK\r\n\r\n",
    "a status below 100": b"HTTP/1.1 099 X\r\n\r\n",
    "another protocol": b"HTTP/1.1 101 Switching\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n",
    "another version": b"HTTP/3.0 200 OK\r\n\r\n",
    "a header without a colon": OK + b"nonsense\r\n\r\n",
    "a space before the colon": OK + b"Content-Length : 5\r\n\r\nhello",
    "a name of nothing": OK + b": x\r\n\r\n",
    "a control character in a value": OK + b"X: a\x01b\r\n\r\n",
    "a NUL in a value": OK + b"X: a\x00b\r\n\r\n",
    "a DEL in a value": OK + b"X: a\x7fb\r\n\r\n",
    "a bare CR in a value": OK + b"X: a\rb\r\n\r\n",
    "a folded header": OK + b"X: a\r\n b\r\n\r\n",
    "a length that is no number": OK + b"Content-Length: five\r\n\r\nhello",
    "a negative length": OK + b"Content-Length: -5\r\n\r\nhello",
    "a length beyond 64 bits": OK + b"Content-Length: 99999999999999999999\r\n\r\nhello",
    "an empty length": OK + b"Content-Length: \r\n\r\nhello",
    "two lengths": OK + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
    "two lengths in one": OK + b"Content-Length: 5, 6\r\n\r\nhello",
    "a length and chunks": OK + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "chunks and a length": OK + b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n",
    "a transfer coding not undone": OK + b"Transfer-Encoding: gzip,chunked\r\n\r\n0\r\n\r\n",
    "an unknown transfer coding": OK + b"Transfer-Encoding: zstd\r\n\r\nhello",
    "a part of a head": OK + b"Content-Le",
    "an interim answer alone": b"HTTP/1.1 100 Continue\r\n\r\n",
}

BROKEN_BODY = {
    "a chunk size that is no number": CHUNKED + b"2\r\nhe\r\nzz\r\n",
    "a chunk size with a prefix": CHUNKED + b"2\r\nhe\r\n0x3\r\nllo\r\n",
    "a chunk size beyond 64 bits": CHUNKED + b"2\r\nhe\r\nfffffffffffffffff\r\n",
    "a chunk longer than its size": CHUNKED + b"2\r\nhello\r\n0\r\n\r\n",
    "a control character in a trailer": CHUNKED + b"2\r\nhe\r\n0\r\nX: \x01\r\n\r\n",
}


@pytest.mark.parametrize(("raw", "status", "body"), WHOLE.values(), ids=WHOLE)
async def test_an_answer_with_an_end_is_whole(
    client: Client, raw: bytes, status: int, body: bytes
) -> None:
    async with peer(answering(raw)) as engine:
        assert await whole(client, engine.target) == (status, body)
        assert await whole(client, engine.target) == (status, body)


@pytest.mark.parametrize(
    ("raw", "status", "body"), WHOLE_AT_THE_CLOSE.values(), ids=WHOLE_AT_THE_CLOSE
)
async def test_an_answer_that_spoils_its_connection_is_whole_and_the_connection_not_used_again(
    client: Client, raw: bytes, status: int, body: bytes
) -> None:
    async with peer(answering(raw, then="close")) as engine:
        assert await whole(client, engine.target) == (status, body)
        assert await whole(client, engine.target) == (status, body)
        assert engine.accepted == 2


@pytest.mark.parametrize(
    "raw", [WHOLE[k][0] for k in ("chunked", "a length", "interim answers", "204")]
)
async def test_a_clean_connection_is_used_again(client: Client, raw: bytes) -> None:
    async with peer(answering(raw)) as engine:
        for _ in range(5):
            await whole(client, engine.target)

        assert engine.accepted == 1
        assert client.open_connections == 1


async def test_a_trailer_is_never_shown_as_a_header(client: Client) -> None:
    async with peer(answering(WHOLE["trailing headers"][0])) as engine:
        for _ in range(2):
            answer = await ask(client, engine.target)
            await rest(answer)
            assert answer.headers == [(b"transfer-encoding", b"chunked")]


@pytest.mark.parametrize("then", ["close", "reset"])
@pytest.mark.parametrize("raw", CUT.values(), ids=CUT)
async def test_a_body_that_stops_before_its_end_is_truncated(
    client: Client, raw: bytes, then: str
) -> None:
    async with peer(answering(raw, then=then)) as engine:
        answer = await ask(client, engine.target)

        with pytest.raises(Truncated):
            await rest(answer)
        with pytest.raises(Truncated):
            await answer.read()


async def test_a_reset_is_no_end_for_a_body_that_ends_with_the_connection(client: Client) -> None:
    async with peer(answering(OK + b"\r\nhello", then="reset")) as engine:
        answer = await ask(client, engine.target)

        with pytest.raises(Truncated):
            await rest(answer)


@pytest.mark.parametrize("raw", BROKEN_HEAD.values(), ids=BROKEN_HEAD)
async def test_a_broken_head_is_no_answer_at_all(client: Client, raw: bytes) -> None:
    async with peer(answering(raw, then="close")) as engine:
        with pytest.raises(BadAnswer):
            await ask(client, engine.target)

        assert client.open_connections == 0
        assert engine.accepted == 1


@pytest.mark.parametrize("raw", BROKEN_BODY.values(), ids=BROKEN_BODY)
async def test_what_came_before_a_broken_chunk_is_given_and_then_the_fault(
    client: Client, raw: bytes
) -> None:
    async with peer(answering(raw)) as engine:
        answer = await ask(client, engine.target)

        assert await answer.read() == b"he"
        with pytest.raises(BadAnswer):
            await answer.read()
        assert client.open_connections == 0


@pytest.mark.parametrize("then", ["close", "reset"])
async def test_a_connection_that_ends_before_any_byte_is_no_answer(
    client: Client, then: str
) -> None:
    async with peer(answering(then=then)) as engine:
        with pytest.raises(NoAnswer):
            await ask(client, engine.target)

        assert engine.accepted == 1


async def test_header_names_come_in_lower_case_in_order_with_repeats_and_empty_values(
    client: Client,
) -> None:
    raw = OK + b"X-A: 1\r\nEmpty:\r\nx-a:  2 \r\nX-Latin: \xe9\r\nContent-Length: 0\r\n\r\n"
    async with peer(answering(raw)) as engine:
        answer = await ask(client, engine.target)

        assert answer.headers == [
            (b"x-a", b"1"),
            (b"empty", b""),
            (b"x-a", b"2"),
            (b"x-latin", b"\xe9"),
            (b"content-length", b"0"),
        ]


@pytest.mark.parametrize("split", [False, True])
async def test_a_head_within_the_limit_passes_and_a_larger_one_does_not(
    client: Client, split: bool
) -> None:
    async def say(n_bytes: int) -> bytes:
        line = b"X-Fill: " + b"x" * 90 + b"\r\n"
        raw = OK + line * (n_bytes // len(line)) + b"Content-Length: 2\r\n\r\nhi"
        pieces = [raw[i : i + 1000] for i in range(0, len(raw), 1000)] if split else [raw]
        async with peer(answering(*pieces)) as engine:
            return (await whole(client, engine.target))[1]

    assert await say(MAX_HEAD_BYTES - 1000) == b"hi"
    with pytest.raises(BadAnswer, match="65536 bytes"):
        await say(MAX_HEAD_BYTES + 1000)


async def test_interim_answers_without_end_are_refused(client: Client) -> None:
    async with peer(answering(b"HTTP/1.1 102 Processing\r\n\r\n" * 5000)) as engine:
        with pytest.raises(BadAnswer, match="65536 bytes"):
            await ask(client, engine.target)
