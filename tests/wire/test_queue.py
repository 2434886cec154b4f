"""Saturation: who waits, in which order, for how long, and what comes after the wait."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.client import PATHS, Reply, question
from tests.clock import Clock
from tests.engine import FakeEngine
from tests.harness import Running, gateway, total, until
from tests.node import Node, member


def queue(max_wait_s: float, max_waiting: int, **more: Any) -> dict[str, Any]:
    return {
        "interactive": {"queue": {"max_wait_s": max_wait_s, "max_waiting": max_waiting}, **more}
    }


async def in_line(g: Running, engine: FakeEngine, names: list[str]) -> list[asyncio.Task[Reply]]:
    """Requests that arrive one after another; all but the first one wait."""
    tasks = []
    for place, name in enumerate(names):
        tasks.append(asyncio.create_task(g.client.ask("chat", user=name)))
        if place == 0:
            await engine.arrived(1)
        else:
            await waiting(g, place)
    return tasks


async def waiting(g: Running, count: float) -> None:
    """Until so many requests wait, by the metrics."""
    async with asyncio.timeout(5):
        while total(await g.metrics(), "gateway_waiting") != count:
            pass


async def test_waiters_are_served_first_come_first_served() -> None:
    engine = FakeEngine("e", held=True)
    node = Node({"chat": member(engine, max_parallel_requests=1)}, rules=queue(10, 10))

    async with gateway(node) as g:
        tasks = await in_line(g, engine, ["a", "b", "c", "d"])
        await engine.release()
        replies = await asyncio.gather(*tasks)
        records = await g.records(4)

    assert [body["user"] for body in engine.bodies] == ["a", "b", "c", "d"]
    assert {r.status for r in replies} == {200}
    assert engine.peak == 1
    assert sum(r["queue_ms"] > 0 for r in records) >= 3


async def test_a_full_queue_acts_at_once() -> None:
    engine = FakeEngine("e", held=True)
    node = Node({"chat": member(engine, max_parallel_requests=1)}, rules=queue(10, 1))

    async with gateway(node) as g:
        tasks = await in_line(g, engine, ["a", "b"])
        third = await g.client.ask("chat", within_s=1)
        await engine.release()
        await asyncio.gather(*tasks)

    assert third.status == 429
    assert 1 <= int(third.headers["retry-after"]) <= 5


@pytest.mark.parametrize("dialect", ["chat", "messages"])
async def test_who_waits_too_long_is_refused(dialect: str) -> None:
    engine = FakeEngine("e", held=True)
    node = Node({"chat": member(engine, max_parallel_requests=1)}, rules=queue(0.1, 10))

    async with gateway(node) as g:
        first = asyncio.create_task(g.client.ask("chat"))
        await engine.arrived(1)
        second = await g.client.ask("chat", dialect=dialect)
        await engine.release()
        await first
        records = await g.records(2)

    assert second.status == 429
    assert int(second.headers["retry-after"]) >= 1
    assert (second.json.get("type") == "error") == (dialect == "messages")
    refused = next(r for r in records if r["outcome"] == "refused")
    assert refused["queue_ms"] >= 95
    assert refused["attempts"] == []


async def test_saturation_falls_back_only_where_the_file_says_so() -> None:
    a, spare = FakeEngine("a", held=True), FakeEngine("spare")

    for choice, served in (("reject", 429), ("fallback", 200)):
        node = Node(
            {"chat": member(a, max_parallel_requests=1), "spare": spare},
            tiers={"burst": ["spare"]},
            router={"fallbacks": [{"chat": ["spare"]}]},
            rules=queue(0.05, 10, on_saturation=choice),
        )
        seen = len(a.requests)
        async with gateway(node) as g:
            await a.hold()
            first = asyncio.create_task(g.client.ask("chat"))
            await a.arrived(seen + 1)
            second = await g.client.ask("chat")
            await a.release()
            await first

        assert second.status == served

    assert len(spare.requests) == 1


async def test_a_saturated_fallback_group_is_skipped() -> None:
    a = FakeEngine("a", status=500)
    b, c = FakeEngine("b", held=True), FakeEngine("c")
    node = Node(
        {"chat": a, "second": member(b, max_parallel_requests=1), "third": c},
        router={"fallbacks": [{"chat": ["second", "third"]}], "num_retries": 0},
    )

    async with gateway(node) as g:
        first = asyncio.create_task(g.client.ask("second"))
        await b.arrived(1)
        reply = await g.client.ask("chat", within_s=2)
        await b.release()
        await first

    assert reply.deployment == "c"
    assert len(b.requests) == 1


async def test_saturation_is_not_failure(clock: Clock) -> None:
    """CAP-10: no cooldown and no count for an engine that was only full."""
    engine = FakeEngine("e", held=True)
    node = Node(
        {"chat": member(engine, max_parallel_requests=1)},
        rules=queue(0.02, 10),
        router={"allowed_fails": 0, "cooldown_time": 60},
    )

    async with gateway(node, clock=clock) as g:
        first = asyncio.create_task(g.client.ask("chat"))
        await engine.arrived(1)
        refused = [await g.client.ask("chat") for _ in range(5)]
        await engine.release()
        await first
        after = await g.client.ask("chat")

    assert {r.status for r in refused} == {429}
    assert after.status == 200


async def test_who_leaves_the_queue_is_not_sent_and_leaves_no_place_behind() -> None:
    """Promise 6: a client that leaves in the queue is noticed; the next in line moves up."""
    engine = FakeEngine("e", held=True)
    node = Node({"chat": member(engine, max_parallel_requests=1)}, rules=queue(10, 2))

    async with gateway(node) as g:
        first = asyncio.create_task(g.client.ask("chat"))
        await engine.arrived(1)
        body = question("chat", user="gone")
        async with g.client.sending(PATHS["chat"], body) as opened:
            await waiting(g, 1)
            opened.leave()
        await waiting(g, 0)
        await engine.release()
        await first
        records = await g.records(2)

    assert len(engine.requests) == 1
    gone = next(r for r in records if r["outcome"] == "cancelled")
    assert gone["attempts"] == []
    assert gone["status"] == 499


async def test_a_freed_permit_of_any_member_serves_the_waiter() -> None:
    a, b = FakeEngine("a", held=True), FakeEngine("b", held=True)
    node = Node(
        {"chat": [member(a, max_parallel_requests=1), member(b, max_parallel_requests=1)]},
        rules=queue(10, 10),
    )

    async with gateway(node) as g:
        tasks = [asyncio.create_task(g.client.ask("chat")) for _ in range(3)]
        await a.arrived(1)
        await b.arrived(1)
        await waiting(g, 1)
        await b.release()
        await b.arrived(2)
        await a.release()
        replies = await asyncio.gather(*tasks)

    assert {r.status for r in replies} == {200}
    assert (len(a.requests), len(b.requests)) == (1, 2)


async def test_a_group_that_waits_does_not_hold_up_another() -> None:
    """NET-02: the hanging engine's queue is its own."""
    a, b = FakeEngine("a", held=True), FakeEngine("b")
    node = Node({"slow": member(a, max_parallel_requests=1), "fast": b}, rules=queue(5, 1000))

    async with gateway(node) as g:
        slow = [asyncio.create_task(g.client.ask("slow")) for _ in range(200)]
        await a.arrived(1)
        replies = [await g.client.ask("fast") for _ in range(20)]
        took = [r.ended_at - r.head_at for r in replies]
        await a.release()
        assert {r.status for r in await asyncio.gather(*slow)} == {200}

    assert {r.status for r in replies} == {200}
    assert max(took) < 0.5


async def test_the_wait_is_one_budget_over_all_groups() -> None:
    a, b = FakeEngine("a", held=True), FakeEngine("b", held=True)
    node = Node(
        {"chat": member(a, max_parallel_requests=1), "spare": member(b, max_parallel_requests=1)},
        rules=queue(0.2, 10, on_saturation="fallback"),
        router={"fallbacks": [{"chat": ["spare"]}]},
    )

    async with gateway(node) as g:
        held = [asyncio.create_task(g.client.ask(name)) for name in ("chat", "spare")]
        await a.arrived(1)
        await b.arrived(1)
        began = asyncio.get_running_loop().time()
        reply = await g.client.ask("chat")
        took = asyncio.get_running_loop().time() - began
        await a.release()
        await b.release()
        await asyncio.gather(*held)

    assert reply.status == 429
    assert 0.15 < took < 0.38


async def test_a_background_flood_leaves_the_interactive_engine_alone() -> None:
    """Promise 2 in motion: only the capped member lets background work through."""
    primary, aux = FakeEngine("primary"), FakeEngine("aux", held=True)
    node = Node(
        {
            "primary-chat": primary,
            "bg": [
                member(aux, {"id": "bg-aux"}, weight=10, max_parallel_requests=2),
                member(primary, {"id": "bg-over"}, weight=1, rpm=4, max_parallel_requests=1),
            ],
        },
        tiers={"background": ["bg"]},
        rules={"background": {"queue": {"max_wait_s": 1, "max_waiting": 100}}},
    )

    async with gateway(node) as g:
        flood = [asyncio.create_task(g.client.ask("bg")) for _ in range(50)]
        await aux.arrived(2)
        await until(lambda: len(primary.requests) >= 4)
        chat = await g.client.ask("primary-chat")
        again = await g.client.ask("primary-chat")
        await aux.release()
        await asyncio.gather(*flood)

    over = [r for r in primary.requests if r.json["model"] == "primary-model"]
    assert chat.status == again.status == 200
    assert len(over) == 6  # four in the minute, and the two chats
    assert primary.peak <= 2
