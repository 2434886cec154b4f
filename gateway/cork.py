"""uvicorn's HTTP/1.1 protocol, with a response's head and its first bytes in one write.

uvicorn hands the head to the transport when the response starts, and the body after it: two system
calls and often two packets where one will do. The head waits here for what follows in the same
turn of the loop, and no longer.
"""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol


class CorkedProtocol(HttpToolsProtocol):
    """The protocol of the gateway's web server; see process.web_server."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.transport = Cork(transport, self.loop)  # type: ignore[assignment]


class Cork:
    """A transport that keeps a response's head for the write after it."""

    __slots__ = ("_head", "_loop", "_transport", "is_closing")

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport, self._loop = transport, loop
        self._head = b""
        self.is_closing = transport.is_closing

    def write(self, data: bytes) -> None:
        """Write; a head waits for what follows, or for the end of the loop's turn."""
        if self._head:
            head, self._head = self._head, b""
            self._transport.write(head + data)
        elif data.startswith(b"HTTP/1.1 "):
            self._head = data
            self._loop.call_soon(self._flush)
        else:
            self._transport.write(data)

    def close(self) -> None:
        """Close, after what waits is written."""
        self._flush()
        self._transport.close()

    def _flush(self) -> None:
        if self._head:
            head, self._head = self._head, b""
            self._transport.write(head)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)
