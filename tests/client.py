"""A client on a raw socket: it sees each byte, chunk and read, and can leave at any time."""

from __future__ import annotations

import asyncio
import json
import socket
import struct
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from tests import markers
from tests.sse import Event, StrictParser, ended_well, error_of, text_of

PATHS = {
    "chat": "/v1/chat/completions",
    "completions": "/v1/completions",
    "messages": "/v1/messages",
    "responses": "/v1/responses",
    "embeddings": "/v1/embeddings",
    "rerank": "/v1/rerank",
    "count_tokens": "/v1/messages/count_tokens",
}


class Broken(AssertionError):
    """The gateway broke HTTP: a chunk or a body that does not end, or a head that is none."""


@dataclass(slots=True)
class Reply:
    """A whole answer, or as much of one as came."""

    status: int
    headers: dict[str, str]  # names in lower case
    body: bytes = b""
    events: list[Event] = field(default_factory=list)
    whole: bool = False  # the body ended as HTTP says it should
    head_at: float = 0.0
    ended_at: float = 0.0

    @property
    def json(self) -> Any:
        """The body, decoded."""
        return json.loads(self.body)

    @property
    def text(self) -> str:
        """What the assistant said, of a stream of any dialect."""
        return text_of(self.events)

    @property
    def done(self) -> bool:
        """Whether the stream ended with a success terminator."""
        return ended_well(self.events)

    @property
    def error(self) -> dict[str, Any] | None:
        """The error object: of the body, or of an event."""
        if self.events:
            return error_of(self.events)
        return dict(self.json["error"]) if self.status >= 400 else None

    @property
    def deployment(self) -> str | None:
        """The deployment that served, by the gateway's header."""
        return self.headers.get("x-gateway-deployment")

    @property
    def attempts(self) -> int:
        """How many attempts were made, by the gateway's header."""
        return int(self.headers["x-gateway-attempts"])


class Open:
    """An answer whose head has arrived and whose body is read step by step."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._parser = StrictParser()
        self._events: list[Event] = []
        self.reply = Reply(0, {})
        self._length: int | None = None
        self._chunked = False
        self._taken = 0

    @property
    def status(self) -> int:
        """The status of the answer."""
        return self.reply.status

    async def head(self) -> None:
        """Read the head."""
        data = await self._reader.readuntil(b"\r\n\r\n")
        first, *lines = data.decode("latin-1").rstrip("\r\n").split("\r\n")
        pairs = [(k.lower(), v.strip()) for k, _, v in (line.partition(":") for line in lines)]
        headers = dict(pairs)
        assert len(headers) == len(pairs), f"a header twice: {lines}"
        self.reply = Reply(int(first.split(" ")[1]), headers, head_at=time.perf_counter())
        self._taken = 0
        self._chunked = headers.get("transfer-encoding") == "chunked"
        self._length = int(headers["content-length"]) if "content-length" in headers else None
        assert self._chunked or self._length is not None, f"a body without an end: {headers}"

    async def piece(self) -> bytes:
        """The next chunk of the body, b"" at its proper end; Broken if it is cut."""
        try:
            return await self._piece()
        except (asyncio.IncompleteReadError, ConnectionError) as error:
            raise Broken("the body was cut") from error

    async def _piece(self) -> bytes:
        if not self._chunked:
            assert self._length is not None
            if not (missing := self._length - self._taken):
                return b""
            data = await self._reader.read(min(65536, missing))
            if not data:
                raise Broken("the body is shorter than its length")
            return data
        size = int((await self._reader.readuntil(b"\r\n"))[:-2], 16)
        data = await self._reader.readexactly(size)
        assert await self._reader.readexactly(2) == b"\r\n", "a chunk of another length"
        return data

    async def rest(self) -> Reply:
        """Read to the end: the whole answer."""
        streams = self.reply.headers.get("content-type", "").startswith("text/event-stream")
        parts = [self.reply.body]
        while piece := await self.piece():
            parts.append(piece)
            self._taken += len(piece)
            if streams:
                self._events += self._parser.feed(piece, time.perf_counter())
        self.reply.body = b"".join(parts)
        if streams:
            self._parser.finish()
        self.reply.events = self._events
        self.reply.whole, self.reply.ended_at = True, time.perf_counter()
        return self.reply

    async def event(self) -> Event:
        """The next event, as soon as its last byte is in."""
        while True:
            if len(self._events) > len(self.reply.events):
                self.reply.events.append(self._events[len(self.reply.events)])
                return self.reply.events[-1]
            piece = await self.piece()
            if not piece:
                raise Broken("no more events")
            self._taken += len(piece)
            self.reply.body += piece
            self._events += self._parser.feed(piece, time.perf_counter())

    async def text(self, words: int) -> str:
        """Read on until so many events with text have come."""
        said = 0
        while said < words:
            said += bool(text_of([await self.event()]))
        return text_of(self.reply.events)

    async def byte(self) -> bytes:
        """One raw byte of what follows, chunk framing and all; b"" at the connection's end."""
        return await self._reader.read(1)

    def send(self, data: bytes) -> None:
        """Send more on the same connection, such as the next request."""
        self._writer.write(data)

    def leave(self, *, reset: bool = False) -> float:
        """Close the connection now; returns when. `reset` sends RST."""
        peer = self._writer.get_extra_info("socket")
        if reset and peer is not None:
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        if reset:
            self._writer.transport.abort()
        else:
            self._writer.close()
        return time.perf_counter()


class Client:
    """Speaks to one address. Each request has a connection of its own."""

    def __init__(self, host: str, port: int, key: str | None) -> None:
        self.host, self.port, self.key = host, port, key

    @property
    def base_url(self) -> str:
        """Where client libraries are pointed at."""
        return f"http://{self.host}:{self.port}/v1"

    @asynccontextmanager
    async def sending(
        self,
        path: str,
        body: Any = None,
        *,
        method: str = "POST",
        headers: Mapping[str, str] | None = None,
        key: str | None = "",
        limit: int = 65536,
    ) -> AsyncIterator[Open]:
        """Send a request; nothing is read yet. `key=None` sends none, "" the client's own."""
        reader, writer = await asyncio.open_connection(self.host, self.port, limit=limit)
        try:
            writer.write(self.request(path, body, headers or {}, method, key))
            await writer.drain()
            yield Open(reader, writer)
        finally:
            writer.close()

    @asynccontextmanager
    async def open(self, path: str, body: Any = None, **more: Any) -> AsyncIterator[Open]:
        """Send a request and read the head of its answer."""
        async with self.sending(path, body, **more) as opened:
            await opened.head()
            yield opened

    async def post(
        self, path: str, body: Any, *, within_s: float = 15.0, quotes: bool = False, **more: Any
    ) -> Reply:
        """The whole answer to a request, streamed or not; errors are looked at for markers.

        `quotes=True` says that the engine itself repeats what it was sent.
        """
        async with asyncio.timeout(within_s), self.open(path, body, **more) as opened:
            reply = await opened.rest()
        if not quotes and (reply.status >= 400 or reply.error is not None):
            assert not markers.seen(reply.body), f"a key or a prompt in an error: {reply.body!r}"
        return reply

    async def get(self, path: str, **more: Any) -> Reply:
        """The whole answer to a GET."""
        return await self.post(path, None, method="GET", **more)

    async def ask(
        self, model: str = "chat", *, dialect: str = "chat", stream: bool = False, **more: Any
    ) -> Reply:
        """A short question in a dialect; `more` goes into the body, `headers` and `key` do not."""
        apart = {name: more.pop(name) for name in ("headers", "key", "within_s") if name in more}
        return await self.post(PATHS[dialect], question(model, dialect, stream, **more), **apart)

    def request(
        self,
        path: str,
        body: Any,
        headers: Mapping[str, str],
        method: str = "POST",
        key: str | None = "",
    ) -> bytes:
        """The bytes of a request."""
        data = body if isinstance(body, bytes) else b"" if body is None else _json(body)
        lines = {"Host": f"{self.host}:{self.port}", "Connection": "close"}
        if method == "POST":
            lines |= {"Content-Type": "application/json", "Content-Length": str(len(data))}
        key = self.key if key == "" else key
        if key is not None:
            lines["Authorization"] = f"Bearer {key}"
        lines |= headers
        text = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
        return f"{method} {path} HTTP/1.1\r\n{text}\r\n".encode() + data


def _json(body: Any) -> bytes:
    return json.dumps(body, ensure_ascii=False).encode()


def question(model: str, dialect: str = "chat", stream: bool = False, **more: Any) -> Any:
    """The body of a short question, with a marked prompt."""
    text = markers.prompt()
    messages = [{"role": "user", "content": text}]
    bodies: dict[str, dict[str, Any]] = {
        "chat": {"messages": messages},
        "completions": {"prompt": text},
        "messages": {"messages": messages, "max_tokens": 100},
        "count_tokens": {"messages": messages},
        "responses": {"input": text},
        "embeddings": {"input": [text]},
        "rerank": {"query": text, "documents": [text, "other"]},
    }
    body = {"model": model, **bodies[dialect], **({"stream": True} if stream else {}), **more}
    return {name: value for name, value in body.items() if value is not None}
