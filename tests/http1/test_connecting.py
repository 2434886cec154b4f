"""Targets that cannot be reached: the reason is named, nothing stays open, no limit is passed."""

from __future__ import annotations

import asyncio
import socket

import pytest

from gateway.http1.client import Client, Target
from gateway.http1.errors import ConnectFailed
from tests.http1.peer import ask


async def test_a_port_where_nobody_listens_fails_to_connect(client: Client) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        target = Target("127.0.0.1", free.getsockname()[1])

    with pytest.raises(ConnectFailed, match=r"to 127\.0\.0\.1:\d+: Connection refused$"):
        await ask(client, target)


@pytest.mark.parametrize("name", ["engine.invalid", "a" * 70, "..", "x y"])
async def test_a_name_without_an_address_fails_to_connect(client: Client, name: str) -> None:
    with pytest.raises(ConnectFailed, match="cannot connect"):
        await ask(client, Target(name, 80))


async def test_connecting_takes_no_longer_than_its_limit() -> None:
    client = Client(connect_timeout_s=0.05)
    with silent_port() as port:
        with pytest.raises(ConnectFailed, match=r"within 0\.05 s"):
            await ask(client, Target("127.0.0.1", port))
    await client.close()


class silent_port:  # noqa: N801 - reads as a function where it is used
    """A port whose backlog is full: a connection attempt gets no reply at all."""

    def __enter__(self) -> int:
        self._server = socket.socket()
        self._server.bind(("127.0.0.1", 0))
        self._server.listen(0)
        self._fill = [socket.socket() for _ in range(4)]
        for one in self._fill:
            one.setblocking(False)
            one.connect_ex(self._server.getsockname())
        port: int = self._server.getsockname()[1]
        return port

    def __exit__(self, *_: object) -> None:
        for one in (*self._fill, self._server):
            one.close()


async def test_cancelling_while_connecting_leaves_no_socket(client: Client) -> None:
    with silent_port() as port:
        task = asyncio.create_task(ask(client, Target("127.0.0.1", port)))
        await asyncio.sleep(0.02)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


async def test_closing_the_client_ends_an_attempt_to_connect() -> None:
    client = Client()
    with silent_port() as port:
        pending = asyncio.create_task(ask(client, Target("127.0.0.1", port)))
        await asyncio.sleep(0.02)

        await client.close()

        with pytest.raises(ConnectFailed, match="closed"):
            await pending
