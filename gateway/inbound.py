"""Inbound: one request as its client sends it, and the way on which its answer goes back.

What the relay asks of the server in front of it; gateway/inlet is the server. `write` waits for
nothing: whoever may send much waits with `drain` while the client is behind (`full`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

HeaderMap = Mapping[bytes, bytes]  # names in lower case
Headers = list[tuple[bytes, bytes]]


class ClientLeft(Exception):
    """The client closed its connection; nobody reads an answer any more."""


class Inbound(Protocol):
    """One request, and its answer. One task serves it."""

    path: str
    headers: HeaderMap
    client_ip: str
    on_left: Callable[[], None] | None  # called once, when the client leaves before the end

    @property
    def full(self) -> bool:
        """True while the client is behind: wait with `drain` before the next write."""
        ...

    async def body(self, max_bytes: int) -> bytes:
        """The whole body, or more than `max_bytes` of it. Raises ClientLeft."""
        ...

    def start(self, status: int, headers: Headers) -> None:
        """The answer's head; it goes out with the first `write`."""

    def write(self, data: bytes, *, last: bool = False) -> None:
        """A piece of the body, or its last one. Lost where the client has left."""

    async def drain(self) -> None:
        """Wait until the client has caught up."""
