"""Large bodies, slow readers, and engines that answer before they have read everything."""

from __future__ import annotations

import asyncio
import tracemalloc

import pytest

from gateway.http1.client import Client
from gateway.http1.connection import MAX_UNREAD_BYTES
from gateway.http1.errors import NoAnswer
from tests.http1.peer import OK, SOON_S, Wire, answering, ask, peer, rest, whole

MIB = 1024 * 1024
TOO_LARGE = b"HTTP/1.1 413 Too Large\r\nConnection: close\r\nContent-Length: 3\r\n\r\nno!"


async def test_an_engine_faster_than_its_reader_is_held_up(client: Client) -> None:
    sent = 0

    async def script(wire: Wire) -> None:
        nonlocal sent
        await wire.request()
        await wire.say(OK + b"Content-Length: %d\r\n\r\n" % (64 * MIB))
        for _ in range(64 * 16):
            await wire.say(b"x" * (MIB // 16))
            sent += MIB // 16

    async with peer(script) as engine:
        answer = await ask(client, engine.target)
        before = -1
        while before != sent or sent == 0:  # until the engine gets nothing more out
            before = sent
            await asyncio.sleep(0.1)

        assert sent < 32 * MIB
        assert answer.unread <= MAX_UNREAD_BYTES + MIB
        assert len(await rest(answer)) == 64 * MIB
        assert await whole(client, engine.target) != (0, b"")


async def test_a_body_of_64_mib_arrives_without_being_copied_whole(client: Client) -> None:
    async def script(wire: Wire) -> None:
        head = await wire.head()
        left = int(head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0])
        while left:
            left -= len(await wire._reader.read(MIB))
        await wire.say(OK + b"Content-Length: 2\r\n\r\nhi")

    body = bytes(64 * MIB)
    async with peer(script) as engine:
        tracemalloc.start()
        try:
            assert await whole(client, engine.target, body) == (200, b"hi")
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()

        assert peak < 8 * MIB
        assert engine.accepted == 1


async def test_a_connection_that_carried_a_large_body_is_used_again(client: Client) -> None:
    async with peer(answering(OK + b"Content-Length: 2\r\n\r\nhi")) as engine:
        for _ in range(3):
            assert await whole(client, engine.target, b"x" * (3 * MIB)) == (200, b"hi")

        assert engine.accepted == 1


@pytest.mark.parametrize("then", ["wait", "close", "reset"])
async def test_an_answer_that_comes_while_the_body_is_being_sent_is_delivered(
    client: Client, then: str
) -> None:
    async def script(wire: Wire) -> None:
        await wire.head()
        await wire.say(TOO_LARGE)
        if then == "reset":
            await asyncio.sleep(0.02)  # so that the answer has arrived: a reset may overtake it
            wire.reset()
        elif then == "wait":
            await wire.client_left()

    async with peer(script) as engine:
        async with asyncio.timeout(SOON_S):
            assert await whole(client, engine.target, b"x" * (64 * MIB)) == (413, b"no!")

        assert client.open_connections == 0


async def test_a_connection_whose_request_was_not_sent_to_its_end_is_not_used_again(
    client: Client,
) -> None:
    async def script(wire: Wire) -> None:
        await wire.head()
        await wire.say(OK + b"Content-Length: 2\r\n\r\nhi")  # and no Connection: close
        await wire.client_left()

    async with peer(script) as engine:
        assert await whole(client, engine.target, b"x" * (64 * MIB)) == (200, b"hi")

        assert client.open_connections == 0


async def test_an_answer_that_begins_early_does_not_stop_the_body(client: Client) -> None:
    """An engine may stream its answer while it still reads."""

    async def script(wire: Wire) -> None:
        head = await wire.head()
        length = int(head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0])
        await wire.say(OK + b"Transfer-Encoding: chunked\r\n\r\n1\r\na\r\n")
        body = await wire._reader.readexactly(length)
        await wire.say(b"1\r\nb\r\n0\r\n\r\n" if len(body) == length else b"")

    async with peer(script) as engine:
        assert await whole(client, engine.target, b"x" * (8 * MIB)) == (200, b"ab")
        assert client.open_connections <= 1


async def test_a_reset_while_the_body_is_being_sent_is_no_answer(
    client: Client,
) -> None:
    async def script(wire: Wire) -> None:
        await wire.head()
        wire.reset()

    async with peer(script) as engine:
        with pytest.raises(NoAnswer):
            await whole(client, engine.target, b"x" * (64 * MIB))


async def test_cancelling_while_the_body_is_being_sent_closes(client: Client) -> None:
    started = asyncio.Event()
    left = asyncio.Event()

    async def script(wire: Wire) -> None:
        await wire.head()
        started.set()
        await wire.client_left()
        left.set()

    async with peer(script) as engine:
        task = asyncio.create_task(ask(client, engine.target, b"x" * (64 * MIB)))
        await started.wait()
        task.cancel()

        with pytest.raises(asyncio.CancelledError):
            await task
        async with asyncio.timeout(SOON_S):
            await left.wait()
        assert client.open_connections == 0


async def test_chunks_come_one_by_one_as_the_engine_writes_them(client: Client) -> None:
    """STR-19: nothing waits for more."""
    go_on = asyncio.Semaphore(0)

    async def script(wire: Wire) -> None:
        await wire.request()
        await wire.say(OK + b"Transfer-Encoding: chunked\r\n\r\n")
        for n in range(50):
            await go_on.acquire()
            await wire.say(b"4\r\n%04d\r\n" % n)
        await wire.say(b"0\r\n\r\n")

    async with peer(script) as engine:
        answer = await ask(client, engine.target)
        for n in range(50):
            go_on.release()
            assert await answer.read() == b"%04d" % n
        assert await answer.read() == b""
