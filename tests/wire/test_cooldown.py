"""Rests: when a deployment rests, for how long, who is sent meanwhile, and how it comes back."""

from __future__ import annotations

import asyncio

import pytest

from tests.clock import Clock
from tests.engine import FakeEngine
from tests.engine_answers import error
from tests.engine_says import Say
from tests.harness import Running, gateway
from tests.node import Node, member


def resting(a: FakeEngine, *others: FakeEngine, **router: object) -> Node:
    """A and, if given, a spare for it; one failure rests A for 45 s."""
    settings = {"allowed_fails": 0, "cooldown_time": 45, "num_retries": 0, **router}
    groups = {"chat": a, **{f"spare{n}": e for n, e in enumerate(others)}}
    if others:
        settings["fallbacks"] = [{"chat": list(groups)[1:]}]
    return Node(groups, router=settings)


async def test_a_failed_deployment_rests_for_the_cooldown(clock: Clock) -> None:
    """CDN-04: it ends by time, and the first request after it is served."""
    a, b = FakeEngine("a", status=500), FakeEngine("b")

    async with gateway(resting(a, b), clock=clock) as g:
        await g.client.ask("chat")
        await g.client.ask("chat")
        assert len(a.requests) == 1

        a.otherwise = Say()
        clock.tick(44.0)
        assert (await g.client.ask("chat")).deployment == "b"
        clock.tick(1.5)
        assert (await g.client.ask("chat")).deployment == "a"


@pytest.mark.parametrize("allowed", [0, 1, 3])
async def test_more_than_allowed_fails_in_a_minute_rest_it(allowed: int, clock: Clock) -> None:
    a, b = FakeEngine("a", status=500), FakeEngine("b")

    async with gateway(resting(a, b, allowed_fails=allowed), clock=clock) as g:
        for _ in range(allowed + 4):
            await g.client.ask("chat")

    assert len(a.requests) == allowed + 1


async def test_old_failures_are_forgotten_after_a_minute(clock: Clock) -> None:
    a, b = FakeEngine("a", status=500), FakeEngine("b")

    async with gateway(resting(a, b, allowed_fails=1), clock=clock) as g:
        await g.client.ask("chat")
        clock.tick(61.0)
        await g.client.ask("chat")
        await g.client.ask("chat")

    assert len(a.requests) == 3


@pytest.mark.parametrize("dialect", ["chat", "messages"])
async def test_with_nowhere_else_one_early_trial_goes_at_a_time(dialect: str, clock: Clock) -> None:
    """CDN-02: one trial gets its own answer, all others 503 with the remaining seconds."""
    a = FakeEngine("a", status=500)

    async with gateway(resting(a), clock=clock) as g:
        await g.client.ask("chat", dialect=dialect)
        clock.tick(10.2)
        await a.hold()
        trial = asyncio.create_task(g.client.ask("chat", dialect=dialect))
        await a.arrived(2)
        others = [await g.client.ask("chat", dialect=dialect) for _ in range(3)]
        a.otherwise = Say()
        await a.release()
        served = await trial
        after = await g.client.ask("chat", dialect=dialect)

    assert {r.status for r in others} == {503}
    assert {r.headers["retry-after"] for r in others} == {"35"}
    assert all((r.json.get("type") == "error") == (dialect == "messages") for r in others)
    assert all(b"127.0.0.1" not in r.body for r in others)
    assert (served.status, after.status) == (200, 200)


async def test_a_rest_by_its_own_retry_after_is_not_tried_early(clock: Clock) -> None:
    a = FakeEngine("a", script=[error(429, retry_after="30")])

    async with gateway(resting(a), clock=clock) as g:
        first = await g.client.ask("chat")
        clock.tick(10.0)
        early = await g.client.ask("chat")
        clock.tick(20.5)
        later = await g.client.ask("chat")

    assert (first.status, early.status, later.status) == (429, 503, 200)
    assert early.headers["retry-after"] == "20"
    assert len(a.requests) == 2


async def test_a_429_that_names_a_wait_is_not_counted(clock: Clock) -> None:
    """Section 5, step 6: it rests that long, without a count against its health."""
    a, b = FakeEngine("a", script=[error(429, retry_after="6")] * 2), FakeEngine("b")

    async with gateway(resting(a, b), clock=clock) as g:
        assert (await g.client.ask("chat")).deployment == "b"
        clock.tick(6.1)
        assert (await g.client.ask("chat")).deployment == "b"
        clock.tick(6.1)
        assert (await g.client.ask("chat")).deployment == "a"


async def test_after_a_rest_one_trial_goes_before_the_crowd(clock: Clock) -> None:
    """CDN-04, F15 with parallel callers: a still broken engine gets one request, not all."""
    a, b = FakeEngine("a", status=500), FakeEngine("b")

    async with gateway(resting(a, b), clock=clock) as g:
        await g.client.ask("chat")
        clock.tick(46.0)
        await a.hold()
        crowd = [asyncio.create_task(g.client.ask("chat")) for _ in range(20)]
        await a.arrived(2)
        await b.arrived(20)
        assert len(a.requests) == 2
        await a.release()
        replies = await asyncio.gather(*crowd)
        clock.tick(1.0)
        await g.client.ask("chat")

    assert {r.deployment for r in replies} == {"b"}
    assert len(a.requests) == 2


async def test_a_trial_that_succeeds_ends_the_rest(clock: Clock) -> None:
    a, b = FakeEngine("a", status=500), FakeEngine("b")

    async with gateway(resting(a, b), clock=clock) as g:
        await g.client.ask("chat")
        a.otherwise = Say()
        clock.tick(46.0)
        replies = [await g.client.ask("chat") for _ in range(3)]

    assert [r.deployment for r in replies] == ["a"] * 3


async def test_a_trial_whose_client_left_does_not_block_the_next(clock: Clock) -> None:
    from tests.client import PATHS, question

    a, b = FakeEngine("a", status=500), FakeEngine("b")

    async with gateway(resting(a, b), clock=clock) as g:
        await g.client.ask("chat")
        clock.tick(46.0)
        await a.hold()
        a.otherwise = Say()
        async with g.client.sending(PATHS["chat"], question("chat")) as opened:
            received = await a.arrived(2)
            opened.leave()
            await received.peer_close()
        await a.release()
        await g.idle()
        got = await g.client.ask("chat")

    assert got.deployment == "a"


async def test_a_bad_model_does_not_rest_its_neighbours_on_one_address(clock: Clock) -> None:
    """Health is per deployment."""

    def answers(received):  # type: ignore[no-untyped-def]
        return error(500) if received.json["model"] == "bad" else Say()(received)

    engine = FakeEngine("e", otherwise=answers)
    node = Node(
        {
            "bad": member(engine, {"id": "bad"}, model="hosted_vllm/bad"),
            "good": member(engine, {"id": "good"}, model="hosted_vllm/good"),
        },
        router={"allowed_fails": 0, "cooldown_time": 45, "num_retries": 0},
    )

    async with gateway(node, clock=clock) as g:
        for _ in range(3):
            await g.client.ask("bad")
        got = await g.client.ask("good")

    assert got.status == 200


async def test_an_outage_is_answered_by_the_spare_and_its_end_is_noticed(clock: Clock) -> None:
    """F15: twenty calls, one due every 4 s, a minute of 503; A answers again within 16 s."""
    a, b = FakeEngine("a", status=503), FakeEngine("b")

    async with gateway(resting(a, b, cooldown_time=10, allowed_fails=1), clock=clock) as g:
        served, tries = [], 0
        for call in range(20):
            if call == 15:
                a.otherwise = Say()
                tries = len(a.requests)
            served.append((await g.client.ask("chat", stream=True)).deployment)
            clock.tick(4.0)

    assert served[:15] == ["b"] * 15
    assert tries <= 15
    assert served[19] == "a"
    assert "a" in served[15:19]


async def test_resting_members_are_left_out_and_the_weights_of_the_rest_hold(
    clock: Clock,
) -> None:
    """CAP-01: the same rule with one in cooldown."""
    a, b, c = FakeEngine("a", status=500), FakeEngine("b"), FakeEngine("c")
    node = Node(
        {"chat": [member(a, weight=100), member(b, weight=3), member(c, weight=1)]},
        router={"allowed_fails": 0, "cooldown_time": 600, "num_retries": 1},
    )

    async with gateway(node, clock=clock) as g:
        await ask_many(g, 300)

    assert len(a.requests) == 1
    assert abs(len(b.requests) / 300 - 0.75) < 0.12


async def ask_many(g: Running, count: int) -> None:
    for _ in range(count):
        assert (await g.client.ask("chat")).status == 200


async def test_all_members_resting_is_503_with_the_soonest_end(clock: Clock) -> None:
    said = error(503, retry_after="40"), error(503, retry_after="20")
    a, b = FakeEngine("a", otherwise=said[0]), FakeEngine("b", otherwise=said[1])
    node = Node({"chat": [a, b]}, router={"num_retries": 1, "allowed_fails": 0})

    async with gateway(node, clock=clock) as g:
        await g.client.ask("chat")
        got = await g.client.ask("chat")

    assert got.status == 503
    assert 1 <= int(got.headers["retry-after"]) <= 20
