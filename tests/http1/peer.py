"""A server of raw bytes: a script says, connection by connection, what it does."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import struct
from collections.abc import AsyncIterator, Awaitable, Callable

from gateway.http1.client import Client, Response, Target

SOON_S = 5.0  # what should happen at once has this long on a busy machine
OK = b"HTTP/1.1 200 OK\r\n"


class Wire:
    """One accepted connection, as the script sees it."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def request(self) -> bytes:
        """The next request's body; IncompleteReadError if the client leaves before its end."""
        head = await self.head()
        length = head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0]
        return await self._reader.readexactly(int(length))

    async def head(self) -> bytes:
        """The next request's head; the body stays unread."""
        return await self._reader.readuntil(b"\r\n\r\n")

    async def say(self, *pieces: bytes) -> None:
        """Write each piece, letting the client read between two."""
        for piece in pieces:
            self._writer.write(piece)
            await self._writer.drain()
            await asyncio.sleep(0)

    def reset(self) -> None:
        """Close with a reset (RST), as a killed process with unread data does."""
        plain = self._writer.get_extra_info("socket")
        plain.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._writer.transport.abort()

    def no_more(self) -> None:
        """Close for writing; reading goes on."""
        self._writer.write_eof()

    def close(self) -> None:
        """Close, in order."""
        self._writer.close()

    async def client_left(self) -> None:
        """Wait until the client has closed the connection."""
        with contextlib.suppress(ConnectionError):
            async with asyncio.timeout(SOON_S):
                while await self._reader.read(65536):
                    pass


Script = Callable[[Wire], Awaitable[None]]


class Peer:
    """A listening server; it counts what it accepts."""

    def __init__(self, script: Script) -> None:
        self._script = script
        self._wires: set[asyncio.StreamWriter] = set()
        self.target = Target("127.0.0.1", 0)
        self.accepted = 0
        self.bodies: list[bytes] = []  # of the requests that `answering` read whole

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.accepted += 1
        self._wires.add(writer)
        with contextlib.suppress(
            asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError
        ):
            await self._script(Wire(reader, writer))
        writer.close()

    async def stop(self) -> None:
        for writer in self._wires:
            writer.transport.abort()
        await asyncio.sleep(0)


@contextlib.asynccontextmanager
async def peer(
    script: Script, *, host: str = "127.0.0.1", tls: ssl.SSLContext | None = None
) -> AsyncIterator[Peer]:
    """A server that runs `script` for each connection it accepts."""
    made = Peer(script)
    server = await asyncio.start_server(made.serve, host, 0, ssl=tls)
    name = "localhost" if tls else host
    made.target = Target(name, server.sockets[0].getsockname()[1], tls is not None)
    try:
        yield made
    finally:
        server.close()
        await made.stop()


def answering(*pieces: bytes, then: str = "keep") -> Script:
    """A script that answers each request with `pieces`, then keeps on, closes or resets."""

    async def script(wire: Wire) -> None:
        while True:
            await wire.request()
            await wire.say(*pieces)
            if then == "reset":
                wire.reset()
            if then != "keep":
                return

    return script


def head(length: int) -> bytes:
    """A request's head, as the relay would build it."""
    return b"POST /v1/x HTTP/1.1\r\nHost: engine\r\nContent-Length: %d\r\n\r\n" % length


async def ask(client: Client, target: Target, body: bytes = b"{}") -> Response:
    """Post a body."""
    return await client.post(target, head(len(body)), body)


async def rest(answer: Response) -> bytes:
    """The answer's body, to its end."""
    pieces = []
    while piece := await answer.read():
        pieces.append(piece)
    return b"".join(pieces)


async def whole(client: Client, target: Target, body: bytes = b"{}") -> tuple[int, bytes]:
    """Post a body; the answer's status and body."""
    answer = await ask(client, target, body)
    return answer.status, await rest(answer)
