"""A client that leaves is noticed in the queue, during prefill and in the stream."""

from __future__ import annotations

import asyncio

import pytest

from tests.client import PATHS, question
from tests.engine import FakeEngine
from tests.engine_answers import SILENT, Answer, Send, Silence, reply
from tests.engine_says import Say
from tests.engine_wire import Received
from tests.harness import gateway
from tests.node import Node, member

CLOSE_S = 0.1  # promise 6
ROUTES = pytest.mark.parametrize("dialect", ["chat", "completions", "messages", "responses"])
LEAVES = pytest.mark.parametrize("reset", [False, True], ids=["FIN", "RST"])


def three_words(received: Received) -> Answer:
    """Some words, then silence."""
    return (*Say()(received)[:5], *SILENT)


@ROUTES
@LEAVES
async def test_the_engine_sees_the_close_in_mid_stream(dialect: str, reset: bool) -> None:
    """CAN-01: on every route; the permit is back; one record says cancelled, with its tokens."""
    engine = FakeEngine("e", otherwise=three_words)
    node = Node({"chat": member(engine, max_parallel_requests=1)})

    async with gateway(node) as g:
        body = question("chat", dialect, stream=True)
        async with g.client.open(PATHS[dialect], body) as opened:
            await opened.text(1)
            left_at = opened.leave(reset=reset)
            closed_at = await engine.requests[0].peer_close()
        record = await g.record()
        await g.idle()

    assert closed_at - left_at < CLOSE_S
    assert record["outcome"] == "cancelled"
    assert record["estimated"] is True
    assert record["completion_tokens"] >= 1
    assert record["status"] == 200
    assert len(record["attempts"]) == 1


@pytest.mark.parametrize("dialect", list(PATHS))
@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
async def test_the_engine_sees_the_close_during_prefill(dialect: str, streamed: bool) -> None:
    """CAN-03: nothing has been said yet, streamed or not."""
    engine, spare = FakeEngine("e", otherwise=SILENT), FakeEngine("spare")
    node = Node({"chat": engine, "spare": spare}, router={"fallbacks": [{"chat": ["spare"]}]})

    async with gateway(node) as g:
        body = question("chat", dialect, stream=streamed)
        async with g.client.sending(PATHS[dialect], body) as opened:
            received = await engine.arrived(1)
            left_at = opened.leave()
            closed_at = await received.peer_close()
        record = await g.record()
        await g.idle()

    assert closed_at - left_at < CLOSE_S
    assert spare.requests == []
    assert record["outcome"] == "cancelled"
    assert record["status"] == 499


async def test_the_engine_sees_the_close_in_the_middle_of_a_whole_answer() -> None:
    whole = reply('{"id": "x", "choices": []}')
    engine = FakeEngine("e", otherwise=(whole[0], Send(b'{"id": '), Silence()))

    async with gateway(Node({"chat": engine})) as g:
        async with g.client.sending(PATHS["chat"], question("chat")) as opened:
            received = await engine.arrived(1)
            await asyncio.sleep(0.05)
            left_at = opened.leave()
            closed_at = await received.peer_close()
        record = await g.record()

    assert closed_at - left_at < CLOSE_S
    assert record["outcome"] == "cancelled"


async def test_a_client_that_leaves_and_asks_again_never_has_two_at_the_engine() -> None:
    """CAN-03: left three times in a row, one request at a time reaches the engine."""
    engine = FakeEngine("e", otherwise=SILENT)

    async with gateway(Node({"chat": engine})) as g:
        for n in range(4):
            async with g.client.sending(PATHS["chat"], question("chat")) as opened:
                received = await engine.arrived(n + 1)
                opened.leave()
                await received.peer_close()
        records = await g.records(4)

    assert engine.peak == 1
    assert {r["outcome"] for r in records} == {"cancelled"}


async def test_an_autocomplete_storm_leaves_the_last_one_fast() -> None:
    """CAN-05: 30 completions, each aborted by the next; the engine does no dead work."""
    engine = FakeEngine("e", held=True)
    node = Node(
        {"chat": member(engine, max_parallel_requests=1)},
        router={"allowed_fails": 0, "cooldown_time": 60},
        rules={"interactive": {"queue": {"max_wait_s": 10, "max_waiting": 100}}},
    )

    async with gateway(node) as g:
        for n in range(29):
            async with g.client.sending(
                PATHS["completions"], question("chat", "completions")
            ) as opened:
                received = await engine.arrived(n + 1)
                opened.leave()
                await received.peer_close()
        last = asyncio.create_task(g.client.ask("chat", dialect="completions"))
        await engine.arrived(30)
        await engine.release()
        got = await last
        records = await g.records(30)

    assert got.status == 200
    assert engine.peak == 1
    assert [r["outcome"] for r in records].count("cancelled") == 29


async def test_a_client_that_leaves_during_a_retry_pause_starts_no_further_try() -> None:
    engine = FakeEngine("e", status=503)
    node = Node({"chat": engine}, router={"num_retries": 8, "allowed_fails": 100})

    async with gateway(node) as g:
        async with g.client.sending(PATHS["chat"], question("chat")) as opened:
            await engine.arrived(1)
            opened.leave()
        record = await g.record()
        tries = len(engine.requests)
        await asyncio.sleep(0.3)

    assert record["outcome"] == "cancelled"
    assert len(engine.requests) == tries


async def test_half_a_request_is_nothing() -> None:
    """A client that leaves while it sends: no engine is asked, and nothing is held."""
    engine = FakeEngine("e")

    async with gateway(Node({"chat": engine})) as g:
        headers = {"Content-Length": "5000"}
        async with g.client.sending(PATHS["chat"], b'{"model": "chat"', headers=headers) as opened:
            await asyncio.sleep(0.05)
            opened.leave()
        assert (await g.client.ask("chat")).status == 200

    assert len(engine.requests) == 1


async def test_aborts_are_no_failures_of_the_engine() -> None:
    """CAN-05: no cooldown and no count from clients that left."""
    engine = FakeEngine("e", otherwise=three_words)
    node = Node({"chat": engine}, router={"allowed_fails": 0, "cooldown_time": 60})

    async with gateway(node) as g:
        for _ in range(5):
            async with g.client.open(PATHS["chat"], question("chat", stream=True)) as opened:
                await opened.text(1)
                opened.leave()
        engine.otherwise = Say()
        got = await g.client.ask("chat")

    assert got.status == 200
