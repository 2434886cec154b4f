"""The pages over real sockets, under the server and the settings that the gateway runs with."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import uvicorn

from gateway.api.app import build
from tests.api.gateway import CHAT_KEY, MASTER, FakeGateway


@asynccontextmanager
async def served(gateway: FakeGateway) -> AsyncIterator[int]:
    """The pages on a free loopback port; an access log is on, as it looks at each answer."""
    sock = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(build(gateway), interface="asgi3", lifespan="off", log_config=None)
    server = uvicorn.Server(config)
    running = asyncio.create_task(server.serve(sockets=[sock]))
    try:
        yield sock.getsockname()[1]
    finally:
        server.should_exit = True
        await running


async def talk(port: int, *requests: str) -> bytes:
    """Requests one after another on one connection, the last one closing it; all answers."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    for request in requests[:-1]:
        writer.write(f"{request}\r\nHost: gw\r\n\r\n".encode())
    writer.write(f"{requests[-1]}\r\nHost: gw\r\nConnection: close\r\n\r\n".encode())
    answers = await reader.read()
    writer.close()
    await writer.wait_closed()
    return answers


async def test_refusals_and_pages_are_whole_and_the_connection_lives_on(
    gateway: FakeGateway,
) -> None:
    key, master = f"\r\nAuthorization: Bearer {CHAT_KEY}", f"\r\nx-api-key: {MASTER}"

    async with served(gateway) as port:
        answers = await talk(
            port,
            "GET /health/live HTTP/1.1",
            "HEAD /health/live HTTP/1.1",
            "GET /metrics HTTP/1.1",
            "GET /metrics HTTP/1.1" + key,
            "GET /metrics HTTP/1.1" + master,
            "OPTIONS /v1/models HTTP/1.1",
            "HEAD /v1/models HTTP/1.1" + key,
            "GET //v1/models HTTP/1.1" + key,
            "GET /v1/models/lab%2Faux-35b HTTP/1.1" + master,
        )

    statuses = [int(part[:3]) for part in answers.split(b"HTTP/1.1 ")[1:]]
    assert statuses == [200, 200, 401, 403, 200, 401, 200, 404, 200]
    assert answers.endswith(b"}")
