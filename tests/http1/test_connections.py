"""Which connection carries a request: kept-alive ones, stale ones, new ones, and none."""

from __future__ import annotations

import asyncio
import socket
import time
from collections import Counter
from itertools import cycle

import pytest

from gateway.http1.client import Client, Target
from gateway.http1.errors import BadAnswer, ConnectFailed, NoAnswer, Truncated
from tests.http1.peer import OK, SOON_S, Wire, answering, ask, head, peer, rest, whole

HI = OK + b"Content-Length: 2\r\n\r\nhi"


async def test_the_connection_used_last_is_used_first(client: Client) -> None:
    async def script(wire: Wire) -> None:
        name = b"%d" % engine.accepted
        while await wire.request():
            await wire.say(OK + b"Content-Length: 1\r\n\r\n" + name)

    async with peer(script) as engine:
        both = await asyncio.gather(ask(client, engine.target), ask(client, engine.target))
        last = await rest(both[1])
        await rest(both[0])

        assert client.open_connections == 2
        names = {(await whole(client, engine.target))[1] for _ in range(4)}
        assert len(names) == 1
        assert engine.accepted == 2
        assert last in (b"1", b"2")


async def test_an_idle_connection_is_closed_after_its_time() -> None:
    left = asyncio.Event()

    async def script(wire: Wire) -> None:
        await wire.request()
        await wire.say(HI)
        await wire.client_left()
        left.set()

    client = Client(idle_s=0.05)
    async with peer(script) as engine:
        began = time.monotonic()
        await whole(client, engine.target)
        async with asyncio.timeout(SOON_S):
            await left.wait()

        assert time.monotonic() - began >= 0.05
        assert client.open_connections == 0
        await client.close()


async def test_a_connection_in_use_is_never_closed_as_idle() -> None:
    go_on = asyncio.Event()

    async def script(wire: Wire) -> None:
        await wire.request()
        await wire.say(HI)
        await wire.request()
        await go_on.wait()
        await wire.say(HI)

    client = Client(idle_s=0.02)
    async with peer(script) as engine:
        await whole(client, engine.target)
        asyncio.get_running_loop().call_later(0.08, go_on.set)

        assert await whole(client, engine.target) == (200, b"hi")
        assert engine.accepted == 1
        await client.close()


async def test_a_connection_that_got_bytes_while_idle_is_not_used_again(client: Client) -> None:
    left = asyncio.Event()

    async def script(wire: Wire) -> None:
        await wire.request()
        await wire.say(HI)
        await speak.wait()
        await wire.say(HI.replace(b"hi", b"NO"))
        await wire.client_left()
        left.set()

    speak = asyncio.Event()
    async with peer(script) as engine:
        await whole(client, engine.target)
        speak.set()
        async with asyncio.timeout(SOON_S):
            await left.wait()

        assert await whole(client, engine.target) == (200, b"hi")
        assert engine.accepted == 2


async def test_a_kept_alive_connection_that_closes_unanswered_is_replaced_once(
    client: Client,
) -> None:
    seen: list[bytes] = []

    async def script(wire: Wire) -> None:
        await wire.request()
        await wire.say(HI)
        # Read the head of the second request, and close: the body is unread, so a reset.
        seen.append(await wire.head())
        wire.reset()

    async with peer(script) as engine:
        await whole(client, engine.target)

        assert await whole(client, engine.target, b"x" * 100) == (200, b"hi")
        assert len(seen) == 1
        assert engine.accepted == 2


async def test_the_replacement_of_a_stale_connection_is_not_replaced_again(client: Client) -> None:
    async def script(wire: Wire) -> None:
        await wire.request()
        if engine.accepted == 1:
            await wire.say(HI)
            await wire.request()

    async with peer(script) as engine:
        await whole(client, engine.target)

        with pytest.raises(NoAnswer):
            await whole(client, engine.target)
        assert engine.accepted == 2


async def test_a_new_connection_that_closes_unanswered_is_not_replaced(client: Client) -> None:
    async def script(wire: Wire) -> None:
        await wire.request()

    async with peer(script) as engine:
        with pytest.raises(NoAnswer):
            await whole(client, engine.target)
        assert engine.accepted == 1


@pytest.mark.parametrize(
    ("part", "error"),
    [(b"H", BadAnswer), (b"HTTP/1.1 100 Continue\r\n\r\n", BadAnswer), (HI[:-1], Truncated)],
)
async def test_a_kept_alive_connection_that_has_begun_to_answer_is_not_replaced(
    client: Client, part: bytes, error: type[Exception]
) -> None:
    async def script(wire: Wire) -> None:
        await wire.request()
        await wire.say(HI)
        await wire.request()
        await wire.say(part)

    async with peer(script) as engine:
        await whole(client, engine.target)

        with pytest.raises(error):
            await whole(client, engine.target)
        assert engine.accepted == 1


async def test_a_stale_connection_to_an_engine_that_is_gone_is_no_answer(client: Client) -> None:
    """Not ConnectFailed: that would say that nothing was ever sent."""

    async def script(wire: Wire) -> None:
        await wire.request()
        await wire.say(HI)
        await wire.request()
        listening.close()

    listening = await asyncio.start_server(lambda r, w: _run(script, Wire(r, w), w), "127.0.0.1", 0)
    target = Target("127.0.0.1", listening.sockets[0].getsockname()[1])
    await whole(client, target)

    with pytest.raises(NoAnswer, match="cannot connect"):
        await whole(client, target)


async def _run(script, wire: Wire, writer: asyncio.StreamWriter) -> None:  # type: ignore[no-untyped-def]
    await script(wire)
    writer.close()


@pytest.mark.parametrize("uses_its_own_age", [True, False], ids=["idle_s below", "idle_s above"])
async def test_no_request_fails_or_runs_twice_while_an_engine_closes_idle_connections(
    uses_its_own_age: bool,
) -> None:
    """NET-01: 200 rounds around the edge of the engine's own keep-alive time, here 5 ms."""
    edge_s = 0.005
    runs: Counter[bytes] = Counter()

    async def script(wire: Wire) -> None:
        patience_s: float | None = None  # with a first request; it is no idle connection yet
        while True:
            async with asyncio.timeout(patience_s):
                first = await wire.head()
            patience_s = edge_s
            assert first
            body = await wire._reader.readexactly(4)
            runs[body] += 1
            await wire.say(HI)

    async def closing_when_idle(wire: Wire) -> None:
        try:
            await script(wire)
        except TimeoutError:
            wire.close()

    client = Client(idle_s=edge_s * 0.8 if uses_its_own_age else 60.0)
    waits = cycle([0.0, 0.99, 1.0, 1.01, 0.98, 1.02, 1.0, 1.5])
    async with peer(closing_when_idle) as engine:
        for n in range(200):
            assert await whole(client, engine.target, b"%04d" % n) == (200, b"hi")
            await asyncio.sleep(edge_s * next(waits))

        assert len(runs) == 200
        assert set(runs.values()) == {1}
        assert engine.accepted > 1
        await client.close()


async def test_an_engine_that_hangs_does_not_delay_the_others(client: Client) -> None:
    """NET-02."""

    async def hang(wire: Wire) -> None:
        await wire.request()
        await wire.client_left()

    async with peer(hang) as stuck, peer(answering(HI)) as well:
        waiting = [asyncio.create_task(ask(client, stuck.target)) for _ in range(200)]
        await asyncio.sleep(0)
        for _ in range(20):
            async with asyncio.timeout(SOON_S):
                assert await whole(client, well.target) == (200, b"hi")
        for task in waiting:
            task.cancel()
        await asyncio.wait(waiting)


async def test_ipv6(client: Client) -> None:
    async with peer(answering(HI), host="::1") as engine:
        assert str(engine.target).startswith("[::1]:")
        assert await whole(client, engine.target) == (200, b"hi")


async def test_small_writes_go_out_at_once(client: Client) -> None:
    async with peer(answering(HI)) as engine:
        await whole(client, engine.target)

        (host,) = client._hosts.values()
        (connection,) = host.open
        plain = connection._transport.get_extra_info("socket")
        assert plain.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) != 0


async def test_a_closed_client_closes_what_is_open_and_opens_nothing_more() -> None:
    client = Client()
    started = asyncio.Event()

    async def script(wire: Wire) -> None:
        await wire.request()
        started.set()
        await wire.client_left()

    async with peer(answering(HI)) as well, peer(script) as slow:
        await whole(client, well.target)
        pending = asyncio.create_task(ask(client, slow.target))
        await started.wait()
        assert client.open_connections == 2

        await client.close()

        assert client.open_connections == 0
        with pytest.raises(Exception, match="closed"):
            await pending
        with pytest.raises(ConnectFailed, match="closed"):
            await ask(client, well.target)


async def test_head_and_body_arrive_as_they_were_given(
    client: Client,
) -> None:
    seen: list[bytes] = []

    async def script(wire: Wire) -> None:
        seen.append(await wire.head())
        seen.append(await wire._reader.readexactly(10_000))
        await wire.say(HI)

    body = bytes(range(250)) * 40
    async with peer(script) as engine:
        await whole(client, engine.target, body)

        assert seen == [head(10_000), body]
