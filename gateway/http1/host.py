"""The connections to one target: which are open, and which of them wait for work.

The newest idle connection is used first, so that spare ones grow old and are closed. One timer
per host closes them; there is none per request.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

from gateway.outbox import Outbox

if TYPE_CHECKING:
    from gateway.http1.connection import Connection


CLOSE_S = 1.0


class Host:
    """Open connections to one target. Idle ones are closed after `idle_s` seconds."""

    __slots__ = ("_empty", "_idle", "_idle_s", "_loop", "_sweep", "name", "open", "outbox")

    def __init__(self, name: str, idle_s: float, outbox: Outbox) -> None:
        self.name, self.outbox = name, outbox
        self.open: set[Connection] = set()
        self._empty = asyncio.Event()
        self._empty.set()
        self._idle: list[Connection] = []  # by the time they fell idle, newest last
        self._idle_s = idle_s
        self._loop = asyncio.get_running_loop()
        self._sweep: asyncio.TimerHandle | None = None

    def take(self) -> Connection | None:
        """The idle connection used last, or None if there is none fit for use."""
        # The sweep may be late when the loop is busy: the age is looked at here too.
        oldest = self._loop.time() - self._idle_s
        while self._idle:
            connection = self._idle.pop()
            if connection.usable() and connection.idle_since > oldest:
                return connection
            connection.abort()
        return None

    def park(self, connection: Connection) -> None:
        """Keep a connection whose answer is complete for the next request."""
        connection.idle_since = self._loop.time()
        self._idle.append(connection)
        if self._sweep is None:
            self._sweep = self._loop.call_later(self._idle_s, self._close_the_old)

    def made(self, connection: Connection) -> None:
        """The connection stands."""
        self.open.add(connection)
        self._empty.clear()

    def lost(self, connection: Connection) -> None:
        """The connection is closed."""
        self.open.discard(connection)
        if not self.open:
            self._empty.set()
        if connection in self._idle:
            self._idle.remove(connection)

    async def close(self) -> None:
        """Close every connection now and see them gone; pending reads raise Aborted."""
        if self._sweep is not None:
            self._sweep.cancel()
            self._sweep = None
        self._idle.clear()
        for connection in tuple(self.open):
            connection.abort()
        # A transport that never reports its end must not hold up the gateway's own.
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(CLOSE_S):
                await self._empty.wait()

    def _close_the_old(self) -> None:
        oldest = self._loop.time() - self._idle_s
        while self._idle and self._idle[0].idle_since <= oldest:
            self._idle.pop(0).abort()
        self._sweep = None
        if self._idle:
            due = self._idle[0].idle_since + self._idle_s
            self._sweep = self._loop.call_at(due, self._close_the_old)
