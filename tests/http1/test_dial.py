"""A name with several addresses: the first that works is used, the others leave nothing open."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import time
from collections.abc import Iterator

import pytest

from gateway.http1 import dial
from gateway.http1.client import Client, Target
from gateway.http1.dial import Attempt, first, interleaved
from tests.http1.peer import OK, answering, peer, whole

V4, V6 = socket.AF_INET, socket.AF_INET6
Address = tuple[str, int]


def to(address: Address) -> Attempt[socket.socket]:
    """An attempt to connect a socket to `address`."""

    async def attempt() -> socket.socket:
        made = socket.socket()
        made.setblocking(False)
        try:
            await asyncio.get_running_loop().sock_connect(made, address)
        except BaseException:  # raised again; the socket must not leak
            made.close()
            raise
        return made

    return attempt


async def dialled(*addresses: Address) -> socket.socket:
    """The first connection that stands."""
    return await first([to(address) for address in addresses], socket.socket.close)


@contextlib.contextmanager
def listening() -> Iterator[Address]:
    """An address where somebody listens."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()


@contextlib.contextmanager
def silent() -> Iterator[Address]:
    """An address that never replies: its backlog is full."""
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(socket.socket())
        server.bind(("127.0.0.1", 0))
        server.listen(0)
        for _ in range(4):
            fill = stack.enter_context(socket.socket())
            fill.setblocking(False)
            fill.connect_ex(server.getsockname())
        yield server.getsockname()


def refusing() -> Address:
    """An address where nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        address: Address = server.getsockname()
        return address


def test_families_take_turns_with_the_resolver_s_first_in_front() -> None:
    a, b, c, d = ((V6, "1"), (V6, "2"), (V4, "3"), (V6, "4"))

    assert interleaved([a, b, c, d]) == ["1", "3", "2", "4"]
    assert interleaved([c, a, b, a]) == ["3", "1", "2"]
    assert interleaved([]) == []


async def test_a_silent_address_costs_one_short_delay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dial, "NEXT_ADDRESS_S", 0.05)
    with silent() as dead, listening() as alive:
        began = time.monotonic()
        with await dialled(dead, alive) as made:
            assert made.getpeername() == alive

        assert 0.04 < time.monotonic() - began < 1.0


async def test_a_refusal_costs_no_delay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dial, "NEXT_ADDRESS_S", 60.0)
    with listening() as alive:
        with await dialled(refusing(), alive) as made:
            assert made.getpeername() == alive


async def test_when_every_address_fails_each_one_s_reason_is_named_once() -> None:
    with pytest.raises(OSError, match=r"^Connection refused$"):
        await dialled(refusing(), refusing())


async def test_a_name_without_addresses_says_so() -> None:
    with pytest.raises(OSError, match="no address"):
        await dialled()


async def test_cancelling_stops_every_attempt(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dial, "NEXT_ADDRESS_S", 0.01)
    before = asyncio.all_tasks()
    with silent() as one, silent() as two:
        task = asyncio.create_task(dialled(one, two))
        await asyncio.sleep(0.05)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await asyncio.sleep(0)
        await asyncio.sleep(0)

    assert asyncio.all_tasks() == before


async def test_localhost_finds_an_engine_that_listens_on_one_family_only(client: Client) -> None:
    async with peer(answering(OK + b"Content-Length: 2\r\n\r\nhi")) as engine:
        target = Target("localhost", engine.target.port)

        assert await whole(client, target) == (200, b"hi")
        assert client.open_connections == 1
