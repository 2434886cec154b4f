"""The outbox: at once for a few, at the end of the turn in a crowd, and each by itself."""

from __future__ import annotations

import asyncio

import pytest

from gateway.outbox import FEW, MAX_WAITING_BYTES, Outbox


class Writer:
    """Counts its flushes; `broken` fails each."""

    def __init__(self, *, broken: bool = False) -> None:
        self.flushed = 0
        self._broken = broken

    def flush(self) -> None:
        if self._broken:
            raise RuntimeError("the transport is gone")
        self.flushed += 1


async def test_with_few_requests_a_write_goes_out_at_once() -> None:
    outbox, writer = Outbox(), Writer()
    outbox.running = FEW

    outbox.add(writer, 10)

    assert writer.flushed == 1


async def test_in_a_crowd_it_goes_out_before_the_next_turn() -> None:
    outbox, writer = Outbox(), Writer()
    outbox.running = FEW + 1

    outbox.add(writer, 10)
    waited = writer.flushed
    await asyncio.sleep(0)

    assert (waited, writer.flushed) == (0, 1)


async def test_above_its_bytes_nothing_waits() -> None:
    outbox, first, second = Outbox(), Writer(), Writer()
    outbox.running = FEW + 1
    outbox.add(first, MAX_WAITING_BYTES)

    outbox.add(second, 1)

    assert (first.flushed, second.flushed) == (0, 1)


async def test_a_write_that_fails_keeps_no_other(caplog: pytest.LogCaptureFixture) -> None:
    outbox, broken, well = Outbox(), Writer(broken=True), Writer()
    outbox.running = FEW + 1
    outbox.add(broken, 1)
    outbox.add(well, 1)

    await asyncio.sleep(0)

    assert well.flushed == 1
    assert "a write failed" in caplog.text
