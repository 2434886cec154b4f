"""One connection of the scripted engine: reads requests and does the steps of their answers.

Bytes are written by hand, so that a test decides every write boundary and every fault. The peer's
close is noted the moment the event loop reports it.
"""

from __future__ import annotations

import asyncio
import json
import socket
import struct
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, cast

from tests.engine_answers import Answer, Close, Hold, Pause, Reset, Send, Silence, Step


def _nothing() -> None:
    """Nobody waits for the end."""


@dataclass(eq=False, slots=True)
class Received:
    """What the engine noted about one request. Times are of `time.perf_counter`."""

    number: int  # counts this engine's requests from 1
    connection: int
    method: str
    path: str
    headers: tuple[tuple[str, str], ...]  # names in lower case
    body: bytes
    at: float
    answered_at: float | None = None  # the last step was done
    peer_closed_at: float | None = None  # the peer left before that
    over: asyncio.Event = field(default_factory=asyncio.Event)
    on_over: Callable[[], None] = _nothing

    def end(self, *, peer_closed: bool) -> None:
        """The request is over, by the last byte of its answer or by the peer's close."""
        if self.over.is_set():
            return
        if peer_closed:
            self.peer_closed_at = time.perf_counter()
        else:
            self.answered_at = time.perf_counter()
        self.over.set()
        self.on_over()

    def header(self, name: str) -> str | None:
        """The value of the first header of this name, or None."""
        return next((value for key, value in self.headers if key == name.lower()), None)

    @property
    def json(self) -> Any:
        """The body, decoded."""
        return json.loads(self.body)

    @property
    def id(self) -> str | None:
        """The gateway's id of the request."""
        return self.header("x-request-id")

    @property
    def streams(self) -> bool:
        """Whether the request asks for a stream."""
        return bool(self.body) and self.json.get("stream") is True

    @property
    def wants_usage(self) -> bool:
        """Whether the request asks for the usage of a stream."""
        return bool((self.json.get("stream_options") or {}).get("include_usage"))

    async def peer_close(self, within_s: float = 2.0) -> float:
        """When the peer closed; an error if it did not, or the answer ended first."""
        async with asyncio.timeout(within_s):
            await self.over.wait()
        assert self.peer_closed_at is not None, "the answer ended before the peer left"
        return self.peer_closed_at


Serve = Callable[[Received], Awaitable[Answer]]


class Connection(asyncio.Protocol):
    """Reads requests one after another; each gets the answer that `serve` returns."""

    def __init__(self, number: int, serve: Serve, *, idle_s: float | None, hang: bool) -> None:
        self._number = number
        self._serve = serve
        self._idle_s = idle_s
        self._hang = hang
        self._buffer = bytearray()
        self._news = asyncio.Event()  # more bytes, or the peer's close
        self._writable = asyncio.Event()
        self._writable.set()
        self._closed = False
        self._current: Received | None = None
        self._task: asyncio.Task[None] | None = None
        self.blocked = False  # the peer did not take all that was written

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        peer = self.transport.get_extra_info("socket")
        peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if not self._hang:
            self._task = asyncio.get_running_loop().create_task(self._run())

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        self._news.set()

    def eof_received(self) -> None:
        self._peer_left()

    def connection_lost(self, error: Exception | None) -> None:
        self._peer_left()
        if self._task is not None:
            self._task.cancel()

    def pause_writing(self) -> None:
        self.blocked = True
        self._writable.clear()

    def resume_writing(self) -> None:
        self.blocked = False
        self._writable.set()

    def _peer_left(self) -> None:
        self._closed = True
        self._news.set()
        self._writable.set()
        self._end(peer_closed=True)

    async def _run(self) -> None:
        while (received := await self._read_request()) is not None:
            self._current = received
            *steps, last = await self._serve(received)
            for step in steps:
                await self._do(step)
            await self._do(last, last=True)
            self._end()
        self.transport.close()

    async def _read_request(self) -> Received | None:
        """The next request, whole; None if the connection idles too long or ends."""
        try:
            async with asyncio.timeout(self._idle_s):
                head = await self._until(b"\r\n\r\n")
        except TimeoutError:
            return None
        if head is None:
            return None
        first, *lines = head.decode("latin-1").split("\r\n")
        method, path, _ = first.split(" ")
        headers = tuple(
            (name.lower(), value.strip()) for name, _, value in (x.partition(":") for x in lines)
        )
        length = int(dict(headers).get("content-length", "0"))
        while len(self._buffer) < length:
            if not await self._more():
                return None
        body = bytes(self._buffer[:length])
        del self._buffer[:length]
        return Received(0, self._number, method, path, headers, body, time.perf_counter())

    async def _until(self, mark: bytes) -> bytes | None:
        while (end := self._buffer.find(mark)) < 0:
            if not await self._more():
                return None
        data = bytes(self._buffer[:end])
        del self._buffer[: end + len(mark)]
        return data

    async def _more(self) -> bool:
        if self._closed:
            return False
        self._news.clear()
        await self._news.wait()
        return not self._closed

    async def _do(self, step: Step, *, last: bool = False) -> None:
        match step:
            case Send(data, piece):
                await self._write(data, piece, last)
            case Pause(seconds):
                await asyncio.sleep(seconds)
            case Hold(gate):
                await gate.wait()
            case Close():
                self._end()
                self.transport.close()
                await asyncio.Event().wait()  # cancelled by connection_lost
            case Reset():
                self._end()
                self.reset()
                await asyncio.Event().wait()
            case Silence():
                await asyncio.Event().wait()

    def _end(self, *, peer_closed: bool = False) -> None:
        if self._current is not None:
            self._current.end(peer_closed=peer_closed)
            self._current = None

    async def _write(self, data: bytes, piece: int | None, last: bool) -> None:
        size = piece or len(data) or 1
        for start in range(0, len(data), size):
            self.transport.write(data[start : start + size])
            if last and start + size >= len(data) and not self.blocked:
                # Over before the peer can act on the last byte: its next request is no overlap.
                self._end()
            await self._writable.wait()
            # A reader in the same loop gets its turn, so that each write is a read of its own.
            for _ in range(3):
                await asyncio.sleep(0)

    def reset(self) -> None:
        """Close with RST at once."""
        linger = struct.pack("ii", 1, 0)
        peer = self.transport.get_extra_info("socket")
        if peer is not None:
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        self.transport.abort()
