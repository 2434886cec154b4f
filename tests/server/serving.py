"""A server that echoes, ours or uvicorn's, and a client that speaks in bytes."""

from __future__ import annotations

import asyncio
import re
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import pytest
import uvicorn

from gateway.inbound import Inbound
from gateway.inlet.inlet import Inlet
from gateway.outbox import Outbox

PATH = "/v1/chat/completions"
LIMIT = 1024 * 1024
CROWDS = pytest.mark.parametrize("running", [0, 100], ids=["alone", "in a crowd"])
Relay = Callable[[Inbound], Awaitable[None]]


class Said(NamedTuple):
    """One answer: its status and body."""

    status: int
    body: bytes


async def echo(inbound: Inbound) -> None:
    """The request's own body, whole; 413 above LIMIT."""
    body = await inbound.body(LIMIT)
    status, body = (413, b"") if len(body) > LIMIT else (200, body)
    inbound.start(status, [(b"content-length", b"%d" % len(body))])
    inbound.write(body, last=True)


async def pages(scope: Any, receive: Any, send: Any) -> None:
    """What was asked for, as ASGI says it, and the body."""
    body, more = b"", True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            return
        body, more = body + message["body"], message["more_body"]
    query = scope["query_string"].decode()
    said = f"{scope['method']} {scope['path']}?{query}".encode()
    said = body if scope["path"] == PATH and scope["method"] == "POST" else said
    length = (b"content-length", b"%d" % len(said))
    await send({"type": "http.response.start", "status": 200, "headers": [length]})
    await send({"type": "http.response.body", "body": said})


@asynccontextmanager
async def ours(
    relay: Relay = echo, app: Any = pages, running: int = 0, **limits: float
) -> AsyncIterator[Server]:
    """The gateway's own server in front of a relay and an app, beside so many other requests."""
    outbox = Outbox()
    outbox.running = running
    sock = socket.create_server(("127.0.0.1", 0))
    inlet = Inlet(relay, app, [PATH], outbox=outbox, **limits)
    await inlet.open(sock)
    try:
        yield Server(sock.getsockname()[1], inlet)
    finally:
        await inlet.close()


@asynccontextmanager
async def uvicorns(app: Any = pages) -> AsyncIterator[Server]:
    """The reference: uvicorn with the same parser."""
    config = uvicorn.Config(
        app, http="httptools", ws="none", lifespan="off", log_config=None, date_header=False
    )
    config.load()
    server = uvicorn.Server(config)
    server.lifespan = config.lifespan_class(config)
    sock = socket.create_server(("127.0.0.1", 0))
    await server.startup(sockets=[sock])
    try:
        yield Server(sock.getsockname()[1], None)
    finally:
        await server.shutdown(sockets=[sock])


class Server:
    """One that listens."""

    def __init__(self, port: int, inlet: Inlet | None) -> None:
        self.port, self._inlet = port, inlet

    @property
    def inlet(self) -> Inlet:
        """Ours."""
        assert self._inlet is not None
        return self._inlet

    @asynccontextmanager
    async def connected(self, limit: int = 65536) -> AsyncIterator[Wire]:
        """A connection to it."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port, limit=limit)
        try:
            yield Wire(reader, writer)
        finally:
            writer.close()

    async def ask(self, data: bytes, answers: int = 1) -> tuple[list[Said], bool]:
        """So many answers to these bytes, or fewer, and whether the connection stays open."""
        async with self.connected() as wire:
            wire.send(data)
            said = [one for _ in range(answers) if (one := await wire.answer()) is not None]
            return said, await wire.stays()


class Wire:
    """One connection, in bytes."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    def send(self, data: bytes) -> None:
        """Write."""
        self.writer.write(data)

    async def send_in(self, pieces: Sequence[bytes]) -> None:
        """Write in pieces, each of which the server, in the same loop, can read by itself."""
        for piece in pieces:
            self.writer.write(piece)
            for _ in range(3):
                await asyncio.sleep(0)

    async def head(self) -> tuple[int, dict[str, str]]:
        """The head of an answer."""
        async with asyncio.timeout(5):
            data = await self.reader.readuntil(b"\r\n\r\n")
        first, *lines = data.decode().split("\r\n")[:-2]
        pairs = [(name, value) for name, _, value in (line.partition(": ") for line in lines)]
        return int(first.split(" ")[1]), dict(pairs)

    async def answer(self, *, bodyless: bool = False) -> Said | None:
        """The next answer, interim ones included; None if the connection ends instead."""
        try:
            status, headers = await self.head()
            return Said(status, b"" if bodyless or status < 200 else await self._body(headers))
        except (asyncio.IncompleteReadError, ConnectionError):
            return None

    async def _body(self, headers: dict[str, str]) -> bytes:
        if headers.get("transfer-encoding") != "chunked":
            length = headers.get("content-length")
            if length is None:
                return await self.reader.read()
            return await self.reader.readexactly(int(length))
        body = b""
        while size := int((await self.reader.readuntil(b"\r\n"))[:-2], 16):
            body += (await self.reader.readexactly(size + 2))[:-2]
        await self.reader.readexactly(2)
        return body

    async def ends(self, within_s: float = 5.0) -> bytes:
        """What comes until the server closes."""
        async with asyncio.timeout(within_s):
            try:
                return await self.reader.read()
            except ConnectionError:
                return b""

    async def stays(self, for_s: float = 0.05) -> bool:
        """True if the server does not close now."""
        try:
            await self.ends(for_s)
        except TimeoutError:
            return True
        return False


def post(body: bytes = b"{}", *headers: bytes, path: str = PATH) -> bytes:
    """A POST of a body with its length."""
    lines = [b"POST %b HTTP/1.1" % path.encode(), b"Host: x", b"Content-Length: %d" % len(body)]
    return b"\r\n".join((*lines, *headers, b"", body))


def chunked(body: bytes, *headers: bytes, trailers: bytes = b"") -> bytes:
    """A POST of a body in chunks of three bytes."""
    lines = [b"POST %b HTTP/1.1" % PATH.encode(), b"Host: x", b"Transfer-Encoding: chunked"]
    chunks = [b"%x\r\n%b\r\n" % (len(c), c) for c in re.findall(rb"(?s).{1,3}", body)]
    head = b"\r\n".join((*lines, *headers, b"", b""))
    return b"".join((head, *chunks, b"0\r\n", trailers, b"\r\n"))
