"""The same bytes to our server and to uvicorn: the same answers, and the same end."""

from __future__ import annotations

import pytest

from tests.server.serving import CROWDS, PATH, Said, chunked, ours, post, uvicorns

START = b"POST %b HTTP/1.1\r\nHost: x\r\n" % PATH.encode()
GET = b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n"

# bytes, and how many answers to wait for
SAME: dict[str, tuple[bytes, int]] = {
    "a body with its length": (post(b"hello"), 1),
    "an empty body": (post(b""), 1),
    "no body and no length": (START + b"\r\n", 1),
    "a chunked body": (chunked(b"hello"), 1),
    "chunks with extensions": (
        START + b"Transfer-Encoding: chunked\r\n\r\n3;a=b\r\nabc\r\n0\r\n\r\n",
        1,
    ),
    "trailers": (chunked(b"hello", trailers=b"X-T: 1\r\n") + post(b"two"), 2),
    "two requests at once": (post(b"one") + post(b"two"), 2),
    "five requests at once": (post(b"1") + GET + chunked(b"3") + GET + post(b"5"), 5),
    "the client wants to close": (post(b"one", b"Connection: close") + post(b"two"), 1),
    "HTTP/1.0": (post(b"one").replace(b"1.1", b"1.0"), 1),
    "HTTP/1.0 that would stay": (
        post(b"one", b"Connection: keep-alive").replace(b"1.1", b"1.0"),
        1,
    ),
    "a page": (GET, 1),
    "a page with a query": (GET.replace(b"/health", b"/a%20b?c=%20d&e"), 1),
    "an absolute target": (post(path="http://other" + PATH), 1),
    "a target with escapes": (post(path=PATH.replace("chat", "ch%61t")), 1),
    "a path with a query": (post(path=PATH + "?x=1"), 1),
    "another method": (b"DELETE /health HTTP/1.1\r\nHost: x\r\n\r\n", 1),
    "blank lines first": (b"\r\n\r\n" + post(b"one"), 1),
    "an upgrade that nobody takes": (
        b"GET /a HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
        1,
    ),
    # Refused, 400, closed: what two parsers could read in two ways.
    "a length and chunks": (
        START + b"Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
        1,
    ),
    "chunks and a length": (
        START + b"Transfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
        1,
    ),
    "two lengths": (START + b"Content-Length: 3\r\nContent-Length: 4\r\n\r\nabcd", 1),
    "the same length twice": (START + b"Content-Length: 3\r\nContent-Length: 3\r\n\r\nabc", 1),
    "a length with a sign": (START + b"Content-Length: +3\r\n\r\nabc", 1),
    "a list of lengths": (START + b"Content-Length: 3, 3\r\n\r\nabc", 1),
    "a length without bounds": (START + b"Content-Length: 99999999999999999999\r\n\r\n", 1),
    "a space before the colon": (START + b"Content-Length : 3\r\n\r\nabc", 1),
    "a folded header": (START + b"X: a\r\n b\r\n\r\n", 1),
    "a bare LF": (START + b"X: a\nY: b\r\n\r\n", 1),
    "a NUL in a header": (START + b"X: a\x00b\r\n\r\n", 1),
    "no HTTP": (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 1),
    "a method of its own": (b"FOO /a HTTP/1.1\r\nHost: x\r\n\r\n", 1),
    "a method in small letters": (b"get /a HTTP/1.1\r\nHost: x\r\n\r\n", 1),
    "a byte above 127 in the target": (b"GET /\xff HTTP/1.1\r\nHost: x\r\n\r\n", 1),
    "a target that is none": (b"CONNECT a:1 HTTP/1.1\r\nHost: x\r\n\r\n", 1),
}


@CROWDS
@pytest.mark.parametrize("case", SAME)
async def test_the_same_bytes_get_the_same_answers(case: str, running: int) -> None:
    data, answers = SAME[case]

    async with ours(running=running) as own, uvicorns() as reference:
        got, stays = await own.ask(data, answers)
        expected, stays_there = await reference.ask(data, answers)

    assert [s.status for s in got] == [s.status for s in expected]
    assert stays == stays_there
    if expected[-1].status != 400:  # whose words are each server's own
        assert got == expected


# Where ours is the stricter one: what it says, and what uvicorn says.
STRICTER: dict[str, tuple[bytes, list[int], list[int]]] = {
    "a coding that is not chunks": (
        START + b"Transfer-Encoding: gzip\r\n\r\nabc",
        [400],
        [400],
    ),
    "a chunk without a size": (
        START + b"Transfer-Encoding: chunked\r\n\r\nxyz\r\nabc\r\n0\r\n\r\n",
        [400],
        [400],
    ),
    # To uvicorn this is two requests, to a proxy in front of it one: the second is smuggled.
    "an upgrade with a body": (
        post(GET, b"Connection: Upgrade", b"Upgrade: h2c") + post(b"next"),
        [200],
        [200],
    ),
    # uvicorn's 400 overtakes the answer to the request before it.
    "rubbish behind a request": (post(b"one") + b"\x00\x01\r\n\r\n", [200], [400]),
}


@pytest.mark.parametrize("case", STRICTER)
async def test_what_is_refused_ends_the_connection(case: str) -> None:
    data, statuses, theirs = STRICTER[case]

    async with ours() as own, uvicorns() as reference:
        got, stays = await own.ask(data)
        expected, _ = await reference.ask(data)

    assert [s.status for s in got] == statuses
    assert not stays
    assert [s.status for s in expected] == theirs


async def test_a_head_has_no_body() -> None:
    data = GET.replace(b"GET", b"HEAD") + GET

    async with ours() as own, uvicorns() as reference:
        for server in (own, reference):
            async with server.connected() as wire:
                wire.send(data)
                assert await wire.answer(bodyless=True) == Said(200, b"")
                assert await wire.answer() == Said(200, b"GET /health?")


@pytest.mark.parametrize("body", [b"hello", b"x" * 200_000])
async def test_a_client_that_asks_first_is_told_to_go_on(body: bytes) -> None:
    head, _, _ = post(body, b"Expect: 100-continue").partition(body)

    async with ours() as own, uvicorns() as reference:
        for server in (own, reference):
            async with server.connected() as wire:
                wire.send(head)
                assert await wire.answer() == Said(100, b"")
                wire.send(body)
                assert await wire.answer() == Said(200, body)
                assert await wire.stays()


async def test_a_client_that_does_not_wait_to_be_asked_is_not_told() -> None:
    async with ours() as own:
        got, stays = await own.ask(post(b"hello", b"Expect: 100-continue"))

    assert got == [Said(200, b"hello")]
    assert stays
