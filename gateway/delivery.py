"""The client's side of one request: what was sent to it, and what is held back for it.

The commit point is here: the first byte of an event, or of a whole body. A heartbeat is none: it
only fixes status 200, so that a later failure can be told by an event alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import cached_property
from typing import Protocol

from gateway.config.config import Dialect
from gateway.dialects import HEARTBEAT, error_event
from gateway.errors import GatewayError
from gateway.errors import body as error_body
from gateway.errors import headers as error_headers
from gateway.exchange import Broken
from gateway.inbound import Headers, Inbound

_EVENT_STREAM = (b"content-type", b"text/event-stream; charset=utf-8")


class Ending(Protocol):
    """What is noted of a request that fails; see trace.py."""

    dialect: Dialect

    def failed(self, error: GatewayError, *, started: bool) -> GatewayError:
        """Note the error; it is told as an event if the response has started."""
        ...


class ClientStalled(Exception):
    """The client took nothing for `client_write_timeout_s`: it is let go."""


class Delivery:
    """What was sent to one client. `committed` is the commit point; a heartbeat is none."""

    def __init__(self, inbound: Inbound, own_headers: Callable[[], Headers]) -> None:
        self._to, self._own_headers = inbound, own_headers
        self.started = self.committed = self.ended = False
        self._held: list[bytes] = []
        self._timers: list[asyncio.Task[None]] = []
        self._releasing = False
        self._sent_at = 0.0

    @cached_property
    def _lock(self) -> asyncio.Lock:
        """Timers write too, and only between whole events."""
        return asyncio.Lock()

    async def whole(self, status: int, headers: Headers, body: bytes) -> None:
        """A whole answer, or an error before anything was sent. Broken if a heartbeat was."""
        if self.started:
            raise Broken("a heartbeat has begun a stream, and this answer is none")
        self.committed = self.ended = True
        self._start(status, [*headers, (b"content-length", b"%d" % len(body))])
        self._to.write(body, last=True)

    async def write(self, data: bytes) -> None:
        """Whole events, after those that were held. The first ones are the commit."""
        if not self._timers:
            await self._commit(data)
            return
        async with self._lock:
            await self._commit(data)

    async def _commit(self, data: bytes) -> None:
        if self._held:
            data = b"".join((*self._held, data))
            self._held.clear()
        if data:
            # An engine's own comment commits to nothing either: another may still serve.
            self.committed = self.committed or not _only_comments(data)
            await self._write(data)

    async def end(self, last: bytes) -> None:
        """The last events, and the end of the body."""
        if not self._timers:
            await self._end(last)
            return
        async with self._lock:
            await self._end(last)

    async def _end(self, last: bytes) -> None:
        if not self.started:
            self._start(200, [_EVENT_STREAM])
        if self._held:
            last = b"".join((*self._held, last))
        self.ended = self.committed = True
        if self._to.full:
            await self._to.drain()
        self._to.write(last, last=True)

    async def tell(self, error: GatewayError, dialect: Dialect) -> None:
        """A failure: as a whole answer, or as the last event of what the client has."""
        body = error_body(error, dialect)
        if self.started:
            await self.end(error_event(dialect, body))
        else:
            await self.whole(error.shown_status, error_headers(error), body)

    async def fail(self, error: GatewayError, ending: Ending) -> None:
        """The request ends with this error, unless its answer is out already."""
        if not self.ended:
            await self.tell(ending.failed(error, started=self.started), ending.dialect)

    def hold(self, data: bytes, seconds: float) -> None:
        """Keep events back, for `seconds` at most: another candidate could still serve."""
        if data:
            self._held.append(data)
            if not self._releasing:
                self._releasing = True
                self._timers.append(asyncio.create_task(self._release(seconds)))

    def drop_held(self) -> None:
        """Forget held events: their attempt failed, and the client saw nothing of it."""
        self._held.clear()

    def beat_every(self, seconds: float) -> None:
        """From now on send a heartbeat whenever nothing was sent for `seconds`."""
        self._timers.append(asyncio.create_task(self._beat(seconds)))

    @asynccontextmanager
    async def beating(self, seconds: float) -> AsyncIterator[None]:
        """The same, and only until the context ends."""
        self.beat_every(seconds)
        beat = self._timers[-1]
        try:
            yield
        finally:
            async with self._lock:  # not in the middle of one
                beat.cancel()

    def close(self) -> None:
        """Stop its timers."""
        for timer in self._timers:
            timer.cancel()

    async def _release(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
        self._releasing = False
        await self.write(b"")

    async def _beat(self, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        self._sent_at = loop.time()
        while True:
            await asyncio.sleep(max(0.0, self._sent_at + seconds - loop.time()))
            async with self._lock:
                if self.ended:
                    return
                if loop.time() >= self._sent_at + seconds:
                    await self._write(HEARTBEAT)

    async def _write(self, data: bytes) -> None:
        if not self.started:
            self._start(200, [_EVENT_STREAM])
        if self._timers:
            self._sent_at = asyncio.get_running_loop().time()
        if self._to.full:
            await self._to.drain()
        self._to.write(data)

    def _start(self, status: int, headers: Headers) -> None:
        self.started = True
        self._to.start(status, headers + self._own_headers())


def _only_comments(data: bytes) -> bool:
    """True for heartbeats, whoever sent them."""
    return data[:1] in b":\r\n" and all(line[:1] in (b"", b":") for line in data.splitlines())
