"""Server-sent events, read and written, for the bridge's process."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import msgspec

_BLANK = re.compile(rb"(?>\r\n|\n|\r)(?>\r\n|\n|\r)")
_LINE = re.compile(rb"\r\n|\n|\r")
_encode = msgspec.json.encode


async def datas(read: Callable[[], Awaitable[bytes]]) -> AsyncIterator[bytes]:
    """The data of each event, its lines joined, until `read` gives b""."""
    rest = b""
    while piece := await read():
        rest += piece
        start = 0
        while (found := _BLANK.search(rest, start)) is not None:
            if found.end() == len(rest) and rest.endswith(b"\r"):
                break  # its line feed may be on its way
            if data := _data(rest[start : found.start()]):
                yield data
            start = found.end()
        rest = rest[start:]
    if data := _data(rest):
        yield data  # an event that ended with the body


def _data(event: bytes) -> bytes:
    lines = [line[5:].strip() for line in _LINE.split(event) if line.startswith(b"data:")]
    return b"\n".join(lines).strip()


def event(data: Any, name: str | None = None) -> bytes:
    """One event."""
    head = b"" if name is None else b"event: %b\n" % name.encode()
    return b"%bdata: %b\n\n" % (head, _encode(data))
