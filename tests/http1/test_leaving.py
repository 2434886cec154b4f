"""A caller that leaves, or runs out of time, closes the connection: the engine sees it at once."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

import pytest

from gateway.http1.client import Client, Response, Target
from gateway.http1.errors import Aborted
from tests.http1.peer import OK, SOON_S, Peer, Script, Wire, ask, head, peer, rest, whole

CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n"


class Seen:
    """When the request was in, and when its client was gone."""

    def __init__(self) -> None:
        self.request = asyncio.Event()
        self.left = asyncio.Event()
        self.left_at = 0.0

    def script(self, *pieces: bytes) -> Script:
        """Answer with `pieces`, then wait for the client to leave."""

        async def script(wire: Wire) -> None:
            await wire.request()
            await wire.say(*pieces)
            self.request.set()
            await wire.client_left()
            self.left_at = time.monotonic()
            self.left.set()

        return script

    async def gone_within(self, limit_s: float, since: float) -> None:
        """The engine saw the close so soon after `since`."""
        async with asyncio.timeout(SOON_S):
            await self.left.wait()
        assert self.left_at - since < limit_s


async def _post(client: Client, engine: Peer) -> None:
    await ask(client, engine.target)


async def _read(client: Client, engine: Peer) -> None:
    await rest(await ask(client, engine.target))


@pytest.mark.parametrize(
    ("pieces", "wait"),
    [((), _post), ((CHUNKED,), _read), ((CHUNKED, b"2\r\nhi\r\n"), _read)],
    ids=["before the head", "before the body", "within the body"],
)
async def test_the_engine_sees_a_cancelled_caller_leave(
    client: Client, pieces: tuple[bytes, ...], wait: Callable[[Client, Peer], Awaitable[None]]
) -> None:
    """CAN-01, CAN-03."""
    seen = Seen()
    async with peer(seen.script(*pieces)) as engine:
        task = asyncio.ensure_future(wait(client, engine))
        await seen.request.wait()
        began = time.monotonic()
        task.cancel()

        with pytest.raises(asyncio.CancelledError):
            await task
        await seen.gone_within(0.1, began)
        assert client.open_connections == 0


async def test_requests_that_are_each_cancelled_by_the_next_leave_one_connection(
    client: Client,
) -> None:
    """CAN-05."""

    async def script(wire: Wire) -> None:
        await wire.request()
        await asyncio.wait([answer_last, asyncio.ensure_future(wire.client_left())],
                           return_when=asyncio.FIRST_COMPLETED)  # fmt: skip
        await wire.say(OK + b"Content-Length: 2\r\n\r\nhi")
        await wire.client_left()

    answer_last: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    async with peer(script) as engine:
        for _ in range(30):
            task = asyncio.create_task(whole(client, engine.target))
            await asyncio.sleep(0.001)
            task.cancel()
            await asyncio.wait([task])
        assert client.open_connections == 0
        last = asyncio.create_task(whole(client, engine.target))
        await asyncio.sleep(0.01)
        answer_last.set_result(None)

        assert await last == (200, b"hi")
        assert client.open_connections == 1


async def test_abort_makes_a_pending_read_raise_the_error_and_closes(client: Client) -> None:
    seen = Seen()
    error = TimeoutError("idle for 120 s")
    async with peer(seen.script(CHUNKED)) as engine:
        answer = await ask(client, engine.target)
        began = time.monotonic()
        asyncio.get_running_loop().call_soon(answer.abort, error)

        with pytest.raises(TimeoutError) as raised:
            await answer.read()
        assert raised.value is error
        await seen.gone_within(0.1, began)


async def test_abort_drops_what_was_not_read_and_a_later_read_raises(client: Client) -> None:
    seen = Seen()
    async with peer(seen.script(CHUNKED + b"2\r\nhi\r\n")) as engine:
        answer = await ask(client, engine.target)
        answer.abort()
        answer.abort(TimeoutError())

        with pytest.raises(Aborted):
            await answer.read()


async def test_abort_after_the_end_leaves_the_connection_s_next_request_alone(
    client: Client,
) -> None:
    async def script(wire: Wire) -> None:
        while True:
            await wire.request()
            await wire.say(OK + b"Content-Length: 2\r\n\r\nhi")

    async with peer(script) as engine:
        first = await ask(client, engine.target)
        await rest(first)
        second = await ask(client, engine.target)
        first.abort()

        assert await rest(second) == b"hi"
        assert await whole(client, engine.target) == (200, b"hi")
        assert engine.accepted == 1


async def test_abort_makes_a_pending_post_raise_the_error(client: Client) -> None:
    seen = Seen()
    answer = Response()
    async with peer(seen.script()) as engine:
        pending = asyncio.create_task(client.post(engine.target, head(2), b"{}", answer))
        await seen.request.wait()
        began = time.monotonic()
        answer.abort(TimeoutError("no first token within 30 s"))

        with pytest.raises(TimeoutError, match="first token"):
            await pending
        await seen.gone_within(0.1, began)


@pytest.mark.parametrize("turns", range(8))
async def test_abort_at_any_moment_of_connecting_makes_the_post_raise(
    client: Client, turns: int
) -> None:
    async def script(wire: Wire) -> None:
        await wire.request()
        await wire.client_left()

    answer = Response()
    async with peer(script) as engine:
        pending = asyncio.create_task(client.post(engine.target, head(2), b"{}", answer))
        for _ in range(turns):
            await asyncio.sleep(0)
        answer.abort(TimeoutError("too late"))

        with pytest.raises(TimeoutError, match="too late"):
            await pending


@pytest.mark.parametrize("turns", range(8))
async def test_cancelling_at_any_moment_of_connecting_leaves_nothing_open(
    client: Client, turns: int
) -> None:
    async def script(wire: Wire) -> None:
        await wire.request()
        await wire.client_left()

    async with peer(script) as engine:
        pending = asyncio.create_task(ask(client, engine.target))
        for _ in range(turns):
            await asyncio.sleep(0)
        pending.cancel()

        with pytest.raises(asyncio.CancelledError):
            await pending
        for _ in range(4):
            await asyncio.sleep(0)
        assert client.open_connections == 0


async def test_an_answer_that_was_aborted_before_its_post_sends_nothing(client: Client) -> None:
    answer = Response()
    answer.abort(TimeoutError("too late"))

    with pytest.raises(TimeoutError, match="too late"):
        await client.post(Target("127.0.0.1", 1), head(2), b"{}", answer)


async def test_asyncio_s_own_timeout_closes_the_connection(client: Client) -> None:
    seen = Seen()
    async with peer(seen.script()) as engine:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.02):
                await ask(client, engine.target)

        await seen.gone_within(0.1, time.monotonic())
