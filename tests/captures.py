"""Recorded exchanges of real engines, from tests/data/captures: see the README there."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent / "data" / "captures"
MARK = b"\n==== RESPONSE (raw bytes) ====\n"
TORN = b"\n<<"  # the recorder's note that the connection was reset, or that it gave up waiting


@dataclass(frozen=True)
class Capture:
    """One exchange: the request, and the raw bytes of the answer, chunk framing and all."""

    name: str
    path: str
    request: bytes
    raw: bytes

    @property
    def head(self) -> bytes:
        """The answer's head, with its blank line."""
        return self.raw.partition(b"\r\n\r\n")[0] + b"\r\n\r\n"

    @property
    def status(self) -> int:
        """The answer's status."""
        return int(self.raw.split(b" ", 2)[1])

    @property
    def chunked(self) -> bool:
        """Whether the body is chunked."""
        return b"transfer-encoding: chunked" in self.head.lower()

    @property
    def streamed(self) -> bool:
        """Whether the answer is an event stream."""
        return b"text/event-stream" in self.head.lower()

    @property
    def body(self) -> bytes:
        """The body without its chunk framing."""
        rest = self.raw[len(self.head) :]
        return dechunk(rest)[0] if self.chunked else rest

    @property
    def whole(self) -> bool:
        """Whether the body ended as HTTP says it should."""
        rest = self.raw[len(self.head) :]
        if self.chunked:
            return dechunk(rest)[1]
        return self.length is None or self.length == len(rest)

    @property
    def length(self) -> int | None:
        """The Content-Length."""
        for line in self.head.lower().split(b"\r\n"):
            if line.startswith(b"content-length:"):
                return int(line.partition(b":")[2])
        return None

    @property
    def json(self) -> Any:
        """The body, decoded; None if it is not JSON."""
        try:
            return json.loads(self.body)
        except ValueError:
            return None


def dechunk(data: bytes) -> tuple[bytes, bool]:
    """The body inside chunk framing, and whether the last chunk came."""
    out = b""
    while data:
        size, found, rest = data.partition(b"\r\n")
        if not found:
            break
        length = int(size, 16)
        if length == 0:
            return out, True
        out, data = out + rest[:length], rest[length + 2 :]
    return out, False


@cache
def load(name: str) -> Capture:
    """A capture by its path without `.http`, such as `llamacpp/10-chat`."""
    return read(FOLDER / f"{name}.http")


def read(path: Path) -> Capture:
    """A capture from its file."""
    request, _, raw = path.read_bytes().partition(MARK)
    head, _, body = request.partition(b"\r\n\r\n")
    raw = raw.partition(TORN)[0]
    target = head.split(b" ", 2)[1].decode()
    name = f"{path.parent.name}/{path.stem}"
    return Capture(name, target, body.removesuffix(b"\n"), raw)


@cache
def every(engine: str = "*") -> tuple[Capture, ...]:
    """All captures of an engine, or of all, in the order of their names."""
    return tuple(read(path) for path in sorted(FOLDER.glob(f"{engine}/*.http")))


def engines() -> list[str]:
    """The folders."""
    return sorted(path.name for path in FOLDER.iterdir() if path.is_dir())
