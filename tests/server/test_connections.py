"""Connections: who leaves, who is slow, who sends too much, and how they end."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from gateway.inbound import Inbound
from tests.server.serving import CROWDS, LIMIT, PATH, Said, Server, Wire, chunked, echo, ours, post

LEAVES = pytest.mark.parametrize("reset", [False, True], ids=["FIN", "RST"])


class Patient:
    """A relay that waits until its client has left, and says so."""

    def __init__(self, *, reads: bool = True, begins: bool = False) -> None:
        self._reads, self._begins = reads, begins
        self.serving, self.left = asyncio.Event(), asyncio.Event()

    async def __call__(self, inbound: Inbound) -> None:
        if self._reads:
            await inbound.body(LIMIT)
        inbound.on_left = self.left.set
        if self._begins:
            inbound.start(200, [])
            inbound.write(b"begun")
        self.serving.set()
        await self.left.wait()


@asynccontextmanager
async def served(relay: Patient, data: bytes) -> AsyncIterator[tuple[Server, Wire]]:
    """A connection whose request the relay serves."""
    async with ours(relay) as server, server.connected() as wire:
        wire.send(data)
        await asyncio.wait_for(relay.serving.wait(), 2)
        yield server, wire


def leave(wire: Wire, *, reset: bool) -> None:
    if reset:
        sock = wire.writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        wire.writer.transport.abort()
    else:
        wire.writer.close()


@LEAVES
@pytest.mark.parametrize(
    "relay",
    [
        lambda: Patient(),
        lambda: Patient(begins=True),
        lambda: Patient(reads=False),
    ],
    ids=["before the answer", "within it", "before the body was asked for"],
)
@pytest.mark.parametrize("behind", [b"", post(b"next")], ids=["alone", "with a next request"])
async def test_a_client_that_leaves_is_noticed(relay: object, reset: bool, behind: bytes) -> None:
    assert callable(relay)
    patient = relay()

    async with served(patient, post(b"x") + behind) as (_, wire):
        leave(wire, reset=reset)

        await asyncio.wait_for(patient.left.wait(), 0.5)


@LEAVES
async def test_a_client_that_leaves_in_its_own_body_is_noticed(reset: bool) -> None:
    ended: asyncio.Future[BaseException] = asyncio.get_running_loop().create_future()

    async def relay(inbound: Inbound) -> None:
        try:
            await inbound.body(LIMIT)
        except Exception as error:
            ended.set_result(error)
            raise

    async with ours(relay) as server, server.connected() as wire:
        wire.send(post(b"hello")[:-2])
        await asyncio.sleep(0.05)
        leave(wire, reset=reset)

        assert type(await asyncio.wait_for(ended, 0.5)).__name__ == "ClientLeft"


@CROWDS
async def test_the_head_and_the_first_bytes_are_one_write(running: int) -> None:
    async with ours(running=running) as server:
        loop = asyncio.get_running_loop()
        with socket.create_connection(("127.0.0.1", server.port)) as sock:
            sock.setblocking(False)
            await loop.sock_sendall(sock, post(b"hello"))
            first = await loop.sock_recv(sock, 65536)

    assert first.startswith(b"HTTP/1.1 200 OK\r\n")
    assert first.endswith(b"\r\n\r\nhello")


@CROWDS
async def test_a_slow_client_stops_the_relay_and_gets_all_of_it(running: int) -> None:
    sent, waited = 0, 0

    async def relay(inbound: Inbound) -> None:
        nonlocal sent, waited
        inbound.start(200, [])
        for _ in range(200):
            waited += inbound.full
            await inbound.drain()
            inbound.write(b"x" * 65536)
            sent += 1
        inbound.write(b"", last=True)

    async with ours(relay, running=running) as server, server.connected(limit=1024) as wire:
        wire.send(post())
        await asyncio.sleep(0.2)
        before = sent
        got = await wire.answer()

    assert before < 200
    assert waited
    assert got is not None
    assert len(got.body) == 200 * 65536


@CROWDS
async def test_an_answer_that_is_given_up_is_cut(running: int) -> None:
    async def relay(inbound: Inbound) -> None:
        inbound.start(200, [])
        inbound.write(b"begun")

    async with ours(relay, running=running) as server, server.connected() as wire:
        wire.send(post())
        data = await wire.ends()

    assert data.endswith(b"\r\n\r\n5\r\nbegun\r\n")


async def test_a_fault_of_a_page_is_a_500_and_the_connection_goes_on() -> None:
    async def app(scope: object, receive: object, send: object) -> None:
        raise ZeroDivisionError

    async with ours(app=app) as server:
        got, stays = await server.ask(b"GET /a HTTP/1.1\r\nHost: x\r\n\r\n" + post(b"x"), 2)

    assert [s.status for s in got] == [500, 200]
    assert b"Zero" not in got[0].body
    assert stays


@pytest.mark.parametrize("sent", [post(b"x" * (LIMIT + 1)), chunked(b"x" * 300_000 * 4)])
async def test_a_body_above_the_limit_is_answered_and_then_the_connection_ends(sent: bytes) -> None:
    async with ours() as server, server.connected() as wire:
        wire.send(sent + b"x" * 200_000)

        assert await wire.answer() == Said(413, b"")
        assert await wire.ends() == b""


@CROWDS
async def test_an_answer_before_the_body_does_not_wait_for_it(running: int) -> None:
    async def relay(inbound: Inbound) -> None:
        inbound.start(401, [(b"content-length", b"0")])
        inbound.write(b"", last=True)

    async with ours(relay, running=running) as server, server.connected() as wire:
        wire.send(post(b"x" * 1000)[:-500])
        status, headers = await wire.head()

        assert status == 401
        assert headers["connection"] == "close"
        assert await wire.ends() == b""


@pytest.mark.parametrize("whole", [True, False])
async def test_a_head_above_the_limit_is_431(whole: bool) -> None:
    data = b"POST %b HTTP/1.1\r\nHost: x\r\nX: %b" % (PATH.encode(), b"y" * 100_000)

    async with ours() as server:
        got, stays = await server.ask(data + b"\r\n\r\n" * whole)

    assert [s.status for s in got] == [431]
    assert not stays


async def test_a_head_below_the_limit_is_served() -> None:
    async with ours() as server:
        got, stays = await server.ask(post(b"x", b"X: " + b"y" * 60_000))

    assert got == [Said(200, b"x")]
    assert stays


async def test_a_head_that_dribbles_is_408() -> None:
    async with ours(head_s=0.2) as server, server.connected() as wire:

        async def dribble() -> None:
            for byte in post(b"x", b"X: " + b"y" * 200):
                wire.send(bytes([byte]))
                await asyncio.sleep(0.01)

        slow = asyncio.create_task(dribble())
        got = await wire.answer()
        slow.cancel()

    assert got is not None
    assert got.status == 408


async def test_a_slow_body_is_waited_for() -> None:
    async with ours(head_s=0.1, keep_alive_s=0.1) as server, server.connected() as wire:
        wire.send(post(b"hello")[:-3])
        await asyncio.sleep(0.3)
        wire.send(b"llo")

        assert await wire.answer() == Said(200, b"hello")


async def test_a_body_that_stands_still_lets_its_client_go() -> None:
    relay = Patient(reads=False)
    async with ours(relay, body_s=0.2) as server, server.connected() as wire:
        wire.send(post(b"hello")[:-3])
        await asyncio.wait_for(relay.left.wait(), 2)

        assert await wire.ends(2) == b""


async def test_a_body_that_dribbles_is_read_and_a_slow_answer_is_no_slow_body() -> None:
    async def slowly(inbound: Inbound) -> None:
        body = await inbound.body(LIMIT)
        await asyncio.sleep(0.3)
        inbound.start(200, [])
        inbound.write(body, last=True)

    async with ours(slowly, body_s=0.2) as server, server.connected() as wire:
        for byte in post(b"hello"):
            wire.send(bytes([byte]))
            await asyncio.sleep(0.005)

        assert await wire.answer() == Said(200, b"hello")


@pytest.mark.parametrize("asks", [True, False])
async def test_an_idle_connection_is_closed(asks: bool) -> None:
    async with ours(keep_alive_s=0.2) as server, server.connected() as wire:
        if asks:
            wire.send(post(b"x"))
            assert await wire.answer() == Said(200, b"x")

        assert await wire.ends(2) == b""
        assert not server.inlet.connections


@CROWDS
async def test_while_it_drains_each_answer_is_the_last_of_its_connection(running: int) -> None:
    async with ours(running=running) as server, server.connected() as wire:
        wire.send(post(b"one"))
        await wire.answer()
        server.inlet.draining = True
        wire.send(post(b"two"))
        status, headers = await wire.head()

        assert status == 200
        assert headers["connection"] == "close"
        assert await wire.ends() == b"two"


@CROWDS
async def test_requests_in_a_row_wait_for_each_other(running: int) -> None:
    running = most = 0

    async def relay(inbound: Inbound) -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.01)
        running -= 1
        await echo(inbound)

    bodies = [b"%d" % n for n in range(5)]
    async with ours(relay, running=running) as server, server.connected() as wire:
        wire.send(b"".join(post(body) for body in bodies[:2]))
        await asyncio.sleep(0)
        wire.send(b"".join(post(body) for body in bodies[2:]))
        got = [await wire.answer() for _ in bodies]

    assert got == [Said(200, body) for body in bodies]
    assert most == 1


@CROWDS
async def test_much_that_is_pipelined_waits_at_the_clients_side(running: int) -> None:
    gate = asyncio.Event()

    async def relay(inbound: Inbound) -> None:
        await gate.wait()
        await echo(inbound)

    sent = post(b"x" * 50_000)
    async with ours(relay, running=running) as server, server.connected() as wire:
        wire.send(sent * 200)
        await asyncio.sleep(0.2)
        blocked = wire.writer.transport.get_write_buffer_size()
        gate.set()
        got = [await wire.answer() for _ in range(200)]

    assert blocked > 0
    assert {len(said.body) for said in got if said is not None} == {50_000}


@pytest.mark.parametrize("value", [b"a\r\nb: c", b"a\nb", b"a\rb"])
async def test_a_line_end_in_a_header_is_never_sent(value: bytes) -> None:
    async def relay(inbound: Inbound) -> None:
        inbound.start(200, [(b"x", value), (b"content-length", b"0")])
        inbound.write(b"", last=True)

    async with ours(relay) as server, server.connected() as wire:
        wire.send(post())

        assert await wire.ends() == b""


@CROWDS
async def test_a_stream_to_http_1_0_has_no_chunks_and_ends_by_closing(
    running: int,
) -> None:
    async def relay(inbound: Inbound) -> None:
        inbound.start(200, [])
        inbound.write(b"one")
        inbound.write(b"two", last=True)

    async with ours(relay, running=running) as server, server.connected() as wire:
        wire.send(post().replace(b"HTTP/1.1", b"HTTP/1.0"))
        _, headers = await wire.head()

        assert "transfer-encoding" not in headers
        assert headers["connection"] == "close"
        assert await wire.ends() == b"onetwo"


async def test_in_a_crowd_all_that_one_turn_writes_arrives_in_its_order() -> None:
    async def relay(inbound: Inbound) -> None:
        inbound.start(200, [])
        for n in range(100):
            inbound.write(b"%03d" % n * (1 + 9000 * (n % 10 == 0)))
        inbound.write(b"end", last=True)

    async with ours(relay, running=100) as server, server.connected() as wire:
        wire.send(post() + post())
        got = [await wire.answer(), await wire.answer()]

    expected = b"".join(b"%03d" % n * (1 + 9000 * (n % 10 == 0)) for n in range(100)) + b"end"
    assert got == [Said(200, expected)] * 2


async def test_closing_ends_what_runs() -> None:
    patient = Patient()

    async with served(patient, post(b"x")) as (server, wire):
        await server.inlet.close()

        assert await wire.ends() == b""
        assert not server.inlet.connections
