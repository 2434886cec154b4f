"""The outbox: with many requests under way, what a turn of the loop writes goes out together.

A write to a socket whose reader sleeps has to wake it, which costs as much again as the write. Of
many writes in a row only the first finds it asleep. With few requests nothing is gained by
waiting, and a write goes out at once.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Protocol

_log = logging.getLogger("gateway.outbox")

FEW = 2
MAX_WAITING_BYTES = 64 * 1024  # of all connections together: above it nothing waits


class Writer(Protocol):
    """A connection that has something to write."""

    def flush(self) -> None:
        """Write it now; nothing if that was done, or if the connection is closing."""


class Outbox:
    """Shared by all connections of one loop, to clients and to engines."""

    __slots__ = ("_bytes", "_loop", "_waiting", "running")

    def __init__(self) -> None:
        self.running = 0  # requests under way
        self._loop: asyncio.AbstractEventLoop | None = None
        self._waiting: list[Writer] = []
        self._bytes = 0

    def add(self, writer: Writer, size: int) -> None:
        """Have the writer flushed before the next turn of the loop, or at once."""
        self._bytes += size
        if self.running <= FEW or self._bytes > MAX_WAITING_BYTES:
            writer.flush()
            self._bytes -= size
            return
        if not self._waiting:
            if self._loop is None:
                self._loop = asyncio.get_running_loop()
            self._loop.call_soon(self._flush)
        self._waiting.append(writer)

    def _flush(self) -> None:
        waiting, self._waiting, self._bytes = self._waiting, [], 0
        for writer in waiting:
            try:
                writer.flush()
            except Exception:  # noqa: BLE001 -- one connection's fault must not keep the others'
                _log.exception("a write failed")
