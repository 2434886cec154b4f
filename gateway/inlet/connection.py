"""One connection of a client: reads become arrivals, which are served one after the other.

    idle      nothing has come of the next request         closed after `keep_alive_s`
    head      a part of its head is in                     closed after `head_s`: 408
    serving   a task answers it, and its body may follow   closed when the client closes, or sends
                                                           nothing of that body for `body_s`
    closing   answered for the last time                   what still comes is dropped, briefly

Bytes behind a request that is whole wait unread until it is answered: an answer is never late
for what follows it, and a client that leaves is noticed all the same.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, cast

import httptools

from gateway.inlet.arrival import Arrival
from gateway.inlet.heads import has_body, path_of, size
from gateway.inlet.refusals import NO_HTTP, TOO_LARGE, TOO_LATE, HeadTooLarge

if TYPE_CHECKING:
    from gateway.inlet.inlet import Inlet

MAX_HEAD_BYTES = 64 * 1024
MAX_HELD_BYTES = 64 * 1024  # of what is pipelined; above it reading pauses
CLOSING_S = 2.0  # how long a client that still sends may take to see its answer


class Connection(asyncio.Protocol):
    """One client's connection. What the parser finds comes through the `on_...` methods."""

    __slots__ = (
        "_arriving", "_closing", "_current", "_head_bytes", "_headers", "_held", "_held_bytes",
        "_inlet", "_last", "_out", "_parser", "_paused", "_queue", "_target", "_task", "_transport",
        "_waits_s", "full", "loop", "on_header", "peer",
    )  # fmt: skip

    def __init__(self, inlet: Inlet, loop: asyncio.AbstractEventLoop) -> None:
        self._inlet, self.loop = inlet, loop
        self._transport: asyncio.Transport
        self.peer: tuple[Any, ...] = ("", 0)
        self._target = b""
        self._headers: dict[bytes, bytes] = {}  # as sent
        self.on_header = self._headers.__setitem__  # each costs a call into C and no more
        self._parser = httptools.HttpRequestParser(self)
        # What follows a request that closes the connection is nobody's, and no reason for a 400.
        self._parser.set_dangerous_leniencies(lenient_data_after_close=True)
        self._head_bytes = 0  # read since the last request was whole, while its head is not
        self._current: Arrival | None = None  # being served
        self._task: asyncio.Task[None] | None = None  # that serves it
        self._arriving: Arrival | None = None  # its body is not whole
        self._queue: list[Arrival] = []  # came in one read with the current one
        self._held: list[bytes] = []  # not parsed yet
        self._held_bytes = 0
        self._out: list[bytes] = []  # waits for its turn; see outbox.py
        self._last = False  # nothing is parsed any more: what is queued is the last
        self._paused = self._closing = False
        self.full = False  # the client is behind
        self._waits_s = 0.0  # idle, for the rest of a head, or for more of a body

    # What the arrival asks.

    def send(self, data: bytes) -> None:
        """Write to the client."""
        self._out.append(data)
        self._inlet.outbox.add(self, len(data))

    def flush(self) -> None:
        """Write what waits."""
        out = self._out
        if out and not self._transport.is_closing():
            self._transport.write(out[0] if len(out) == 1 else b"".join(out))
        out.clear()

    def keeps(self) -> bool:
        """True if the connection may stay open after this answer."""
        return not (self._inlet.draining or (self._last and not self._queue))

    def cut(self) -> None:
        """Close in the middle of an answer."""
        self._current, self._closing = None, True
        self.flush()
        if self.full:
            self._transport.abort()  # what waits would wait for ever
        else:
            self._transport.close()

    def read_on(self) -> None:
        """Somebody waits for the body."""
        if self._paused:
            self._paused = False
            self._transport.resume_reading()

    def answered(self, arrival: Arrival) -> None:
        """The answer is out: the next request, or the end."""
        self._current = None
        if not arrival.keep_alive:
            self._close(whole=arrival.whole)
            return
        self._waits_s = 0.0
        if self._queue:
            self._serve(self._queue.pop(0))
        elif self._held:
            data = b"".join(self._held)
            self._held.clear()
            self._held_bytes = 0
            self.read_on()
            self.data_received(data)

    # What the inlet asks.

    def tick(self, seconds: float, keep_alive_s: float, head_s: float, body_s: float) -> None:
        """So much time has passed: close what waits for too long."""
        comes = self._current is self._arriving and not self._paused  # a body, or nobody is served
        if self._closing or not comes:
            return
        self._waits_s += seconds
        if self._current is not None:
            if self._waits_s > body_s:
                self._leave()
                self._transport.abort()
        elif self._head_bytes and self._waits_s > head_s:
            self._refuse(TOO_LATE)
        elif not self._head_bytes and self._waits_s > keep_alive_s:
            self._transport.close()

    def shut(self) -> asyncio.Task[None] | None:
        """Close now; returns the task that serves somebody, if any."""
        if self._current is None:
            self.flush()
            self._transport.close()
            return None
        self.flush()
        self._transport.abort()
        return self._task

    # What the transport says.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A client has connected."""
        self._transport = cast(asyncio.Transport, transport)
        self.peer = transport.get_extra_info("peername") or ("", 0)
        self._inlet.connections.add(self)

    def data_received(self, data: bytes) -> None:
        """Parse, unless somebody is served whose request is whole: then it waits."""
        if self._closing:
            return
        if self._current is None or self._current is self._arriving:
            self._parse(data)
            return
        self._held.append(data)
        self._held_bytes += len(data)
        if self._held_bytes > MAX_HELD_BYTES:
            self._pause()

    def eof_received(self) -> None:
        """The client sends no more, and so has left: nobody speaks HTTP with one half closed."""
        if self._current is not None:
            self._leave()
            self._transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection is gone."""
        self._inlet.connections.discard(self)
        self._closing = True
        self._leave()
        del self._parser  # it holds our methods: a cycle that would wait for the collector

    def pause_writing(self) -> None:
        """The client is behind."""
        self.full = True

    def resume_writing(self) -> None:
        """The client has caught up."""
        self.full = False
        if self._current is not None:
            self._current.wake()

    # What the parser finds.

    def on_url(self, piece: bytes) -> None:
        """The request's target, or a piece of it."""
        self._target += piece

    def on_headers_complete(self) -> None:
        """The head is whole: the request is served, its body may follow."""
        parser, target = self._parser, self._target
        if self._head_bytes > MAX_HEAD_BYTES and size(target, self._headers) > MAX_HEAD_BYTES:
            raise HeadTooLarge
        path = self._inlet.paths.get(target)
        old = parser.get_http_version() == "1.0"
        self._arriving = arrival = Arrival(
            connection=self,
            method=parser.get_method(),
            target=target,
            path=path or path_of(target),
            headers={name.lower(): value for name, value in self._headers.items()},
            client_ip=self.peer[0],
            old=old,
            keep_alive=not old and parser.should_keep_alive(),
        )
        self._target, self._head_bytes = b"", 0
        self._headers.clear()
        if self._current is None:
            self._serve(arrival)
        else:
            self._queue.append(arrival)

    def on_body(self, piece: bytes) -> None:
        """A piece of the body."""
        arrival = self._arriving
        if arrival is not None and not arrival.add(piece):
            self._pause()

    def on_message_complete(self) -> None:
        """The request is whole."""
        arrival, self._arriving = self._arriving, None
        self._headers.clear()  # trailers, which say nothing here
        if arrival is not None:
            arrival.whole = True
            arrival.wake()

    # How it goes on.

    def _parse(self, data: bytes) -> None:
        if self._arriving is None:
            if not self._head_bytes:
                self._waits_s = 0.0
            self._head_bytes += len(data)
        else:
            self._waits_s = 0.0
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade as offer:
            # Another protocol is not spoken here. The parser takes a body for that protocol's
            # bytes: nothing after such a head can be trusted to be a request.
            last = self._queue[-1] if self._queue else self._current
            self._last = offer.args[0] < len(data) or (last is not None and has_body(last.headers))
        except httptools.HttpParserError as error:
            self._broken(error)
        else:
            if self._current is not None:
                self._head_bytes = 0
            elif self._head_bytes > MAX_HEAD_BYTES:
                self._refuse(TOO_LARGE)

    def _broken(self, error: httptools.HttpParserError) -> None:
        """What came is no HTTP. Those before it are served, and nothing more is read."""
        self._last = True
        if self._current is None or self._current is self._arriving:  # which never will be whole
            if self._current is not None and self._current.started:
                self.cut()
                return
            self._leave()
            large = isinstance(error.__context__, HeadTooLarge)
            self._refuse(TOO_LARGE if large else NO_HTTP)
        elif self._arriving is not None:
            self._queue.remove(self._arriving)

    def _refuse(self, said: bytes) -> None:
        self._out.append(said)
        self._close(whole=False)

    def _pause(self) -> None:
        if not self._paused:
            self._paused = True
            self._transport.pause_reading()

    def _serve(self, arrival: Arrival) -> None:
        self._current, self._waits_s = arrival, 0.0
        self._task = self.loop.create_task(self._inlet.serve(arrival))

    def _close(self, *, whole: bool) -> None:
        """Close once all is written. A client that still sends must see its answer first.

        Closing with bytes unread resets the connection, and the answer may be lost with it.
        """
        self._closing = True
        self.flush()
        self.read_on()
        if whole:
            self._transport.close()
            return
        if self._transport.can_write_eof():
            self._transport.write_eof()
        self.loop.call_later(CLOSING_S, self._transport.abort)

    def _leave(self) -> None:
        for arrival in self._queue:
            arrival.leave()
        self._queue.clear()
        if self._current is not None:
            self._current.leave()
