"""TLS: the same answers, certificates verified unless the caller brings a context of its own."""

from __future__ import annotations

import asyncio
import dataclasses
import ssl
import time
from collections.abc import AsyncIterator

import pytest
import trustme

from gateway.http1.client import Client
from gateway.http1.errors import ConnectFailed, Truncated
from tests.http1.peer import OK, SOON_S, Wire, answering, ask, peer, rest, whole

HI = OK + b"Content-Length: 2\r\n\r\nhi"
AUTHORITY = trustme.CA()


def serving(name: str = "localhost") -> ssl.SSLContext:
    """An engine's context, with a certificate for `name`."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    AUTHORITY.issue_cert(name).configure_cert(context)
    return context


@pytest.fixture
async def trusting() -> AsyncIterator[Client]:
    """A client that trusts the authority of these tests."""
    context = ssl.create_default_context()
    AUTHORITY.configure_trust(context)
    client = Client(ssl=context)
    yield client
    await client.close()
    assert client.open_connections == 0


async def test_a_request_through_tls_keeps_its_connection(trusting: Client) -> None:
    async with peer(answering(HI), tls=serving()) as engine:
        for _ in range(3):
            assert await whole(trusting, engine.target) == (200, b"hi")

        assert engine.accepted == 1


async def test_an_unknown_authority_is_refused_by_default(client: Client) -> None:
    async with peer(answering(HI), tls=serving()) as engine:
        with pytest.raises(ConnectFailed, match="certificate verify failed"):
            await ask(client, engine.target)

        assert client.open_connections == 0


async def test_a_certificate_for_another_name_is_refused(trusting: Client) -> None:
    async with peer(answering(HI), tls=serving("other.example")) as engine:
        with pytest.raises(ConnectFailed, match="localhost"):
            await ask(trusting, engine.target)


async def test_a_plain_engine_fails_to_connect_by_tls(trusting: Client) -> None:
    async def script(wire: Wire) -> None:
        await wire.say(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    async with peer(script) as engine:
        target = dataclasses.replace(engine.target, host="localhost", tls=True)
        with pytest.raises(ConnectFailed):
            await ask(trusting, target)


async def test_a_handshake_without_reply_ends_with_the_limit() -> None:
    client = Client(connect_timeout_s=0.05)
    left = asyncio.Event()

    async def script(wire: Wire) -> None:
        await wire.client_left()
        left.set()

    async with peer(script) as engine:
        with pytest.raises(ConnectFailed, match=r"within 0\.05 s"):
            await ask(client, dataclasses.replace(engine.target, tls=True))
        async with asyncio.timeout(SOON_S):
            await left.wait()
    await client.close()


async def test_cancelling_within_the_handshake_closes_at_once(client: Client) -> None:
    begun, left = asyncio.Event(), asyncio.Event()

    async def script(wire: Wire) -> None:
        await wire._reader.readexactly(5)
        begun.set()
        await wire.client_left()
        left.set()

    async with peer(script) as engine:
        task = asyncio.create_task(ask(client, dataclasses.replace(engine.target, tls=True)))
        await begun.wait()
        began = time.monotonic()
        task.cancel()

        with pytest.raises(asyncio.CancelledError):
            await task
        async with asyncio.timeout(SOON_S):
            await left.wait()
        assert time.monotonic() - began < 0.1


async def test_a_cut_body_is_truncated_through_tls_too(trusting: Client) -> None:
    cut = OK + b"Content-Length: 5\r\n\r\nhell"
    async with peer(answering(cut, then="close"), tls=serving()) as engine:
        with pytest.raises(Truncated):
            await rest(await ask(trusting, engine.target))


async def test_a_stale_connection_is_replaced_through_tls_too(trusting: Client) -> None:
    async def script(wire: Wire) -> None:
        await wire.request()
        await wire.say(HI)
        await wire.request()

    async with peer(script, tls=serving()) as engine:
        await whole(trusting, engine.target)

        assert await whole(trusting, engine.target) == (200, b"hi")
        assert engine.accepted == 2


async def test_large_bodies_pass_both_ways_through_tls(trusting: Client) -> None:
    size = 8 * 1024 * 1024

    async def script(wire: Wire) -> None:
        body = await wire.request()
        await wire.say(OK + b"Content-Length: %d\r\n\r\n" % size, body)

    async with peer(script, tls=serving()) as engine:
        body = bytes(range(256)) * (size // 256)
        answer = await ask(trusting, engine.target, body)

        assert await rest(answer) == body


async def test_a_cancelled_caller_leaves_through_tls_too(trusting: Client) -> None:
    begun, left = asyncio.Event(), asyncio.Event()

    async def script(wire: Wire) -> None:
        await wire.request()
        begun.set()
        await wire.client_left()
        left.set()

    async with peer(script, tls=serving()) as engine:
        task = asyncio.create_task(ask(trusting, engine.target))
        await begun.wait()
        began = time.monotonic()
        task.cancel()

        with pytest.raises(asyncio.CancelledError):
            await task
        async with asyncio.timeout(SOON_S):
            await left.wait()
        assert time.monotonic() - began < 0.1
