"""An arrival: one request as it comes in, and its answer as it goes out. See gateway/inbound.py.

On the hot path, between the connection, which puts in what the parser finds, and the relay.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from http import HTTPStatus
from typing import TYPE_CHECKING

import msgspec

from gateway.inbound import ClientLeft, HeaderMap, Headers

if TYPE_CHECKING:
    from gateway.inlet.connection import Connection

CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
_STATUS_LINES = {s.value: f"HTTP/1.1 {s.value} {s.phrase}\r\n".encode() for s in HTTPStatus}
_LENGTH = b"content-length"
UNASKED_BYTES = 64 * 1024  # of a body that nobody has asked for yet


class Arrival(msgspec.Struct, kw_only=True, eq=False):
    """One request and its answer. A struct, because one is made for each request, in C."""

    connection: Connection
    method: bytes
    target: bytes  # as it was sent
    path: str
    headers: HeaderMap
    client_ip: str
    old: bool = False  # HTTP/1.0, which knows no chunks
    keep_alive: bool = True
    on_left: Callable[[], None] | None = None
    # The request's body, as it comes.
    whole: bool = False
    pieces: list[bytes] = []
    size: int = 0
    limit: int = -1  # nobody has asked for it yet
    news: asyncio.Future[None] | None = None
    # The answer.
    started: bool = False
    ended: bool = False
    gone: bool = False  # the client has left, or was let go
    head: bytes = b""  # waits for the first bytes of the body, to go out in one write with them
    chunked: bool = False

    @property
    def full(self) -> bool:
        """True while the client is behind."""
        return self.connection.full

    async def body(self, max_bytes: int) -> bytes:
        """The whole body, or more than `max_bytes` of it. Raises ClientLeft."""
        self.limit = max_bytes
        if not self.whole and self.headers.get(b"expect", b"").lower() == b"100-continue":
            self.connection.send(CONTINUE)
        while not self.whole and self.size <= max_bytes:
            if self.gone:
                raise ClientLeft
            self.news = self.connection.loop.create_future()
            self.connection.read_on()
            await self.news
        pieces, self.pieces = self.pieces, []
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def start(self, status: int, headers: Headers) -> None:
        """The answer's head. It says that the connection closes where it cannot be kept."""
        lines = [b"%b: %b\r\n" % header for header in headers]
        lines.insert(0, _STATUS_LINES.get(status) or b"HTTP/1.1 %d \r\n" % status)
        framed = self.method == b"HEAD" or status in (204, 304)
        for name, _ in headers:
            framed = framed or name == _LENGTH
        self.chunked = not framed and not self.old
        if self.chunked:
            lines.append(b"transfer-encoding: chunked\r\n")
        self.keep_alive &= self.whole and self.connection.keeps() and (framed or self.chunked)
        if not self.keep_alive:
            lines.append(b"connection: close\r\n")
        head = b"".join(lines)
        if head.count(b"\n") != len(lines) or head.count(b"\r") != len(lines):
            raise ValueError("a header holds a line end")
        self.started = True
        self.head = head + b"\r\n"

    def write(self, data: bytes, *, last: bool = False) -> None:
        """A piece of the body, or its last one: with the head, if that still waits."""
        if self.gone:
            return
        if self.chunked:
            end = b"0\r\n\r\n" if last else b""
            data = b"%x\r\n%b\r\n%b" % (len(data), data, end) if data else end
        elif self.method == b"HEAD":
            data = b""
        if self.head:
            data, self.head = self.head + data, b""
        if data:
            self.connection.send(data)
        if last:
            self.ended = True
            self.connection.answered(self)

    async def drain(self) -> None:
        """Wait until the client has caught up, or has left."""
        while self.full and not self.gone:
            self.news = self.connection.loop.create_future()
            await self.news

    # What follows is for the connection.

    def add(self, piece: bytes) -> bool:
        """A piece of the request's body is in; False if more has come than anybody asked for."""
        if not self.ended:  # else nobody reads it any more
            self.pieces.append(piece)
            self.size += len(piece)
            if self.size > self.limit:
                self.wake()
                return self.size <= UNASKED_BYTES
        return True

    def wake(self) -> None:
        """Let whoever waits look again."""
        news, self.news = self.news, None
        if news is not None and not news.done():
            news.set_result(None)

    def leave(self) -> None:
        """The client has closed its connection."""
        if self.gone or self.ended:
            return
        self.gone = True
        self.wake()
        if self.on_left is not None:
            self.on_left()

    def cut(self) -> None:
        """An answer that will not be whole: its client must see that."""
        self.gone = True
        self.connection.cut()
