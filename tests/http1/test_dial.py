"""A name with several addresses: the first that works is used, the others leave nothing open."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import time
from collections.abc import Iterator

import pytest

from gateway.http1 import dial as dialling
from gateway.http1.dial import Address, _first, _interleaved, dial

V4, V6 = socket.AF_INET, socket.AF_INET6


@contextlib.contextmanager
def listening() -> Iterator[Address]:
    """An address where somebody listens."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield V4, server.getsockname()


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
        yield V4, server.getsockname()


def refusing() -> Address:
    """An address where nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return V4, server.getsockname()


def test_families_take_turns_with_the_resolver_s_first_in_front() -> None:
    a, b, c, d = ((V6, 1), (V6, 2), (V4, 3), (V6, 4))

    assert _interleaved([a, b, c, d]) == [a, c, b, d]
    assert _interleaved([c, a, b]) == [c, a, b]
    assert _interleaved([]) == []


async def test_a_silent_address_costs_one_short_delay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dialling, "NEXT_ADDRESS_S", 0.05)
    with silent() as dead, listening() as alive:
        began = time.monotonic()
        with await _first([dead, alive]) as made:
            assert made.getpeername() == alive[1]

        assert 0.04 < time.monotonic() - began < 1.0


async def test_a_refusal_costs_no_delay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dialling, "NEXT_ADDRESS_S", 60.0)
    with listening() as alive:
        with await _first([refusing(), alive]) as made:
            assert made.getpeername() == alive[1]


async def test_when_every_address_fails_each_one_s_reason_is_named_once() -> None:
    with pytest.raises(OSError, match=r"^Connection refused$"):
        await _first([refusing(), refusing()])


async def test_a_name_without_addresses_says_so() -> None:
    with pytest.raises(OSError, match="no address"):
        await _first([])


async def test_cancelling_stops_every_attempt(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dialling, "NEXT_ADDRESS_S", 0.01)
    before = asyncio.all_tasks()
    with silent() as one, silent() as two:
        task = asyncio.create_task(_first([one, two]))
        await asyncio.sleep(0.05)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await asyncio.sleep(0)
        await asyncio.sleep(0)

    assert asyncio.all_tasks() == before


async def test_localhost_finds_an_engine_that_listens_on_one_family_only() -> None:
    with listening() as (_, where):
        with await dial("localhost", where[1]) as made:
            assert made.getpeername() == where
