"""Caps are caps: under simultaneous arrival, with retries, cancels and faults."""

from __future__ import annotations

import asyncio
import random

import pytest

from tests.client import PATHS, Broken, Reply, question
from tests.clock import Clock
from tests.engine import FakeEngine, Play
from tests.engine_answers import RESET, SILENT, Answer, Close, Hold, error, reply, stream
from tests.engine_says import Say, chat_events, delta
from tests.engine_wire import Received
from tests.harness import Running, gateway
from tests.node import Node, member

PATIENT = {"interactive": {"queue": {"max_wait_s": 10, "max_waiting": 1000}}}
HASTY = {"interactive": {"queue": {"max_wait_s": 0, "max_waiting": 0}}}


async def at_once(g: Running, count: int, **how: object) -> list[Reply]:
    """So many clients that start together."""
    start = asyncio.Barrier(count)

    async def one() -> Reply:
        await start.wait()
        return await g.client.ask(**how)  # type: ignore[arg-type]

    return list(await asyncio.gather(*(one() for _ in range(count))))


@pytest.mark.parametrize("cap", [1, 3])
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
async def test_a_parallel_cap_holds_under_simultaneous_arrival(cap: int, stream: bool) -> None:
    """CAP-03: the engine never sees more at once than the cap; nobody is lost."""
    engine = FakeEngine("e")
    node = Node({"chat": member(engine, max_parallel_requests=cap)}, rules=PATIENT)

    async with gateway(node) as g:
        replies = await at_once(g, 40, model="chat", stream=stream)

    assert engine.peak == cap
    assert [r.status for r in replies] == [200] * 40
    assert len(engine.requests) == 40


async def test_who_cannot_wait_is_told_when_to_come_back() -> None:
    """CAP-03: with no queue the others get 429 and a Retry-After at once."""
    engine = FakeEngine("e", held=True)
    node = Node({"chat": member(engine, max_parallel_requests=1)}, rules=HASTY)

    async with gateway(node) as g:
        waiting = asyncio.create_task(at_once(g, 6, model="chat"))
        await engine.arrived(1)
        while engine.running and not await refused(g, 5):
            pass
        await engine.release()
        replies = await waiting

    assert sorted(r.status for r in replies) == [200, 429, 429, 429, 429, 429]
    assert engine.peak == 1
    for one in replies:
        if one.status == 429:
            assert 1 <= int(one.headers["retry-after"]) <= 5
            assert one.json["error"]["code"] == "saturated"


async def refused(g: Running, count: int) -> bool:
    """Whether so many records say refused."""
    text = g.activity.read_text() if g.activity.exists() else ""
    return text.count('"outcome":"refused"') >= count


async def test_an_rpm_cap_counts_what_is_sent_in_a_sliding_minute(clock: Clock) -> None:
    """CAP-10: refusals name the wait, count against nobody, and end when the window opens."""
    engine = FakeEngine("e")
    node = Node({"chat": member(engine, rpm=3)}, rules=HASTY)

    async with gateway(node, clock=clock) as g:
        first = await at_once(g, 10, model="chat")
        clock.tick(59.0)
        early = await g.client.ask("chat")
        clock.tick(1.5)
        later = await at_once(g, 10, model="chat")
        state = await g.metrics()

    assert sorted(r.status for r in first) == [200] * 3 + [429] * 7
    waits = {int(r.headers["retry-after"]) for r in first if r.status == 429}
    assert waits <= {59, 60, 61}
    assert early.status == 429
    assert int(early.headers["retry-after"]) <= 2
    assert sorted(r.status for r in later) == [200] * 3 + [429] * 7
    assert len(engine.requests) == 6
    assert "gateway_deployment_in_flight" in state


async def test_retries_count_against_the_rpm_cap(clock: Clock) -> None:
    """Section 4: caps count every attempt, retries included."""
    a, b = FakeEngine("a", status=500), FakeEngine("b")
    node = Node(
        {"chat": [member(a, order=1, rpm=2), member(b, order=2)]},
        router={"num_retries": 1, "allowed_fails": 100},
        rules=HASTY,
    )

    async with gateway(node, clock=clock) as g:
        for _ in range(6):
            assert (await g.client.ask("chat")).deployment == "b"

    assert len(a.requests) == 2


async def test_a_cancelled_stream_gives_its_permit_back() -> None:
    """CAP-06: 200 clients that leave after three words leave no permit behind."""
    engine = FakeEngine("e", otherwise=endless)
    node = Node({"chat": member(engine, max_parallel_requests=1)}, rules=PATIENT)

    async with gateway(node) as g:
        for _ in range(200):
            async with g.client.open(PATHS["chat"], question("chat", stream=True)) as opened:
                await opened.text(3)
                opened.leave()
        engine.otherwise = Say()
        last = await g.client.ask("chat")
        await g.idle()
        records = await g.records(201)

    assert last.status == 200
    assert engine.peak == 1
    assert [r["outcome"] for r in records].count("cancelled") == 200


def endless(received: Received) -> Answer:
    """Some words, then nothing more until the peer leaves."""
    return (*stream([delta("a"), delta("b"), delta("c")], end=False), *SILENT)


async def test_a_token_budget_is_reserved_before_the_answer(clock: Clock) -> None:
    """CAP-09 (a): ten at once with 400 tokens each against 1000 a minute: two fit."""
    engine = FakeEngine("e", otherwise=Say(tokens=(5, 400)))
    node = Node({"chat": member(engine, tpm=1000)}, rules=HASTY)

    async with gateway(node, clock=clock) as g:
        replies = await at_once(g, 10, model="chat", max_tokens=400)
        clock.tick(61.0)
        after = await g.client.ask("chat", max_tokens=400)

    assert [r.status for r in replies].count(200) == 2
    assert all("retry-after" in r.headers for r in replies if r.status == 429)
    assert after.status == 200


async def test_a_stream_without_usage_is_charged_by_its_events(clock: Clock) -> None:
    """CAP-09 (b): tokens are counted from the stream, not taken as nothing."""
    engine = FakeEngine("e", otherwise=Say(words=("w ",) * 300, usage="never"))
    node = Node({"chat": member(engine, tpm=500)}, rules=HASTY)

    async with gateway(node, clock=clock) as g:
        statuses = [
            (await g.client.ask("chat", stream=True, max_tokens=300)).status for _ in range(3)
        ]

    assert statuses == [200, 429, 429]


async def test_a_reservation_is_settled_with_the_engines_usage(clock: Clock) -> None:
    engine = FakeEngine("e", otherwise=Say(tokens=(5, 10)))
    node = Node({"chat": member(engine, tpm=1000)}, rules=HASTY)

    async with gateway(node, clock=clock) as g:
        statuses = [(await g.client.ask("chat", max_tokens=900)).status for _ in range(5)]

    assert statuses == [200] * 5


@pytest.mark.parametrize("weights", [(3, 1), (1, 3)])
async def test_weights_hold_statistically(weights: tuple[int, int]) -> None:
    """CAP-01, CFG-13: shares within the statistical limit, whatever the order of the file."""
    a, b = FakeEngine("a"), FakeEngine("b")
    node = Node({"chat": [member(a, weight=weights[0]), member(b, weight=weights[1])]})

    async with gateway(node) as g:
        await asyncio.gather(*(at_once(g, 20, model="chat") for _ in range(20)))

    share = len(a.requests) / 400
    assert abs(share - weights[0] / 4) < 0.1  # more than four standard deviations


async def test_ten_thousand_mixed_requests_end_at_zero_in_flight() -> None:
    """Promise 4: with cancels and faults of every kind, every permit comes back once."""
    rng = random.Random(7)
    a, b = FakeEngine("a", otherwise=mixed(rng)), FakeEngine("b", otherwise=mixed(rng))
    node = Node(
        {
            "chat": [member(a, max_parallel_requests=20), member(b, max_parallel_requests=10)],
            "spare": member(b, {"id": "spare"}, max_parallel_requests=10),
        },
        router={"fallbacks": [{"chat": ["spare"]}], "num_retries": 1, "allowed_fails": 10**6},
        rules={"interactive": {"queue": {"max_wait_s": 30, "max_waiting": 1000}}},
    )

    async with gateway(node) as g:
        work = iter(range(10_000))
        await asyncio.gather(*(worker(g, rng, work) for _ in range(60)))
        await g.idle(30)
        records = await g.records(10_000, within_s=20)

    assert a.peak <= 20
    assert b.peak <= 20
    assert {r["outcome"] for r in records} == {"ok", "failed", "cancelled", "refused"}
    assert len({r["id"] for r in records}) == 10_000


async def worker(g: Running, rng: random.Random, work: object) -> None:
    for _ in work:  # type: ignore[attr-defined]
        body = question("chat", stream=rng.random() < 0.5)
        try:
            async with g.client.sending(PATHS["chat"], body) as opened:
                if rng.random() < 0.1:
                    opened.leave(reset=rng.random() < 0.5)
                    continue
                await opened.head()
                if rng.random() < 0.1:
                    opened.leave(reset=rng.random() < 0.5)
                    continue
                await opened.rest()
        except Broken as cut:
            raise AssertionError("the gateway cut a body") from cut


def mixed(rng: random.Random) -> Play:
    """A function that answers well, mostly; else with a fault."""
    cut = (*stream(chat_events(["a", "b"])[:2], end=False), Close())
    faults = [RESET, error(500), error(429), error(400), cut, reply("no json"), (Close(),)]
    well = Say()
    return lambda received: rng.choice(faults) if rng.random() < 0.2 else well(received)


async def test_a_permit_is_held_until_the_last_byte_is_out() -> None:
    gate = asyncio.Event()
    events = chat_events(["a", "b"])
    slow = stream([events[0], events[1], Hold(gate), *events[2:], b"data: [DONE]\n\n"])
    engine = FakeEngine("e", script=[slow])
    node = Node({"chat": member(engine, max_parallel_requests=1)}, rules=PATIENT)

    async with gateway(node) as g:
        async with g.client.open(PATHS["chat"], question("chat", stream=True)) as opened:
            await opened.text(1)
            second = asyncio.create_task(g.client.ask("chat"))
            assert await g.in_flight() == 1
            assert len(engine.requests) == 1
            gate.set()
            await opened.rest()
            assert (await second).status == 200

    assert engine.peak == 1
