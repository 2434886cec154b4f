"""A request on a slot: a lease, the engine that it names, and the lease back, once, each time."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.client import PATHS, question
from tests.engine import FakeEngine
from tests.engine_answers import SILENT, Hold, error, stream
from tests.engine_says import DONE, Say, delta
from tests.gateway_slot.plane import Plane, node, on_slot, refused
from tests.harness import gateway, until
from tests.node import member

DIALECTS = pytest.mark.parametrize("dialect", ["chat", "messages"])
STREAMED = pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])


@DIALECTS
@STREAMED
async def test_the_lease_says_where_to_send_and_under_which_name(
    dialect: str, streamed: bool
) -> None:
    a, b = FakeEngine("a"), FakeEngine("b")
    async with Plane({"one": a, "two": b}, loaded="two") as plane:
        async with gateway(node(plane, {"chat": on_slot(b, "two")}), a) as g:
            answer = await g.client.ask("chat", dialect=dialect, stream=streamed)
            record = await g.record()
            await plane.idle()

    assert answer.status == 200
    assert b.bodies[0]["model"] == "two-served"
    assert answer.headers["x-slot-active-profile"] == "two"
    assert answer.headers["x-slot-upstream-port"] == str(b.port)
    assert answer.headers["x-slot-served-model"] == "two-served"
    assert (record["recipe"], record["upstream"]) == ("two", "gpu0/two")
    assert plane.given_back == ["0" * 31 + "1"]
    ask = plane.asked[0].json
    assert (ask["recipe"], ask["swap"], ask["wait_s"]) == ("two", True, 300.0)
    assert ask["holder"] == record["id"]


async def test_a_deployment_without_a_slot_asks_nobody_and_says_nothing_of_slots() -> None:
    a, b = FakeEngine("a"), FakeEngine("b")
    async with Plane({"one": a}, loaded="one") as plane:
        async with gateway(node(plane, {"chat": on_slot(a, "one"), "plain": b})) as g:
            answer = await g.client.ask("plain")
            record = await g.record()

    assert plane.asked == []
    assert not [name for name in answer.headers if name.startswith("x-slot")]
    assert record["recipe"] is None


async def test_active_is_whatever_is_loaded_and_never_swaps() -> None:
    a, b = FakeEngine("a"), FakeEngine("b")
    async with Plane({"one": a, "two": b}, loaded="one") as plane:
        async with gateway(node(plane, {"active": on_slot(a, "active")}), b) as g:
            first = await g.client.ask("active")
            await plane.load("two")
            second = await g.client.ask("active")
            await plane.load(None)
            third = await g.client.ask("active")
            records = await g.records(3)

    assert first.headers["x-slot-active-profile"] == "one"
    assert second.headers["x-slot-active-profile"] == "two"
    assert (third.status, third.headers["retry-after"]) == (503, "30")
    assert third.error is not None
    assert third.error["code"] == "slot_not_loaded"
    assert [ask.json["swap"] for ask in plane.asked] == [False, False, False]
    assert [r["recipe"] for r in records] == ["one", "two", None]


async def test_a_variant_sets_thinking_and_the_files_own_extra_body_wins() -> None:
    a = FakeEngine("a")
    groups = {
        "active": on_slot(a, "active", "plain"),
        "active-think": on_slot(a, "active", "think", variant="think"),
        "active-fast": on_slot(a, "active", "fast", variant="fast", extra_body={"top_k": 5}),
    }
    async with Plane({"one": a}, loaded="one") as plane, gateway(node(plane, groups)) as g:
        for name in groups:
            asked: dict[str, Any] = {"chat_template_kwargs": {"enable_thinking": "?", "x": 1}}
            await g.client.ask(name, **asked)

    plain, think, fast = a.bodies
    assert plain["chat_template_kwargs"] == {"enable_thinking": "?", "x": 1}
    assert think["chat_template_kwargs"] == {"enable_thinking": True, "x": 1}
    assert fast["chat_template_kwargs"] == {"enable_thinking": False, "x": 1}
    assert ("top_k" in think, fast["top_k"]) == (False, 5)


@pytest.mark.parametrize(
    ("tiers", "info", "asked", "swaps"),
    [
        ({"interactive": ["chat"]}, {}, {}, True),
        ({"auxiliary": ["chat"]}, {}, {}, True),
        ({"background": ["chat"]}, {}, {}, False),
        ({"background": ["chat"]}, {"swap": True}, {}, True),
        ({"interactive": ["chat"]}, {"swap": False}, {}, False),
        ({"auxiliary": ["chat"]}, {}, {"headers": {"X-Task": "title"}}, False),
        ({"auxiliary": ["chat"]}, {"swap": True}, {"headers": {"X-Task": "title"}}, True),
    ],
)
async def test_who_may_swap_is_by_the_file_else_by_tier_and_never_a_task(
    tiers: dict[str, list[str]], info: dict[str, Any], asked: dict[str, Any], swaps: bool
) -> None:
    a = FakeEngine("a")
    pins = {"title": "chat"} if "auxiliary" in tiers else {}
    async with Plane({"one": a}, loaded="one") as plane:
        given = node(plane, {"chat": on_slot(a, "one", **info)}, tiers=tiers, pins=pins)
        async with gateway(given) as g:
            answer = await g.client.ask("chat", **asked)

    assert answer.status == 200
    assert [ask.json["swap"] for ask in plane.asked] == [swaps]


@STREAMED
async def test_a_client_that_leaves_gives_its_lease_back(streamed: bool) -> None:
    a = FakeEngine("a", otherwise=SILENT)
    async with Plane({"one": a}, loaded="one") as plane:
        async with gateway(node(plane, {"chat": on_slot(a, "one")})) as g:
            body = question("chat", stream=streamed)
            async with g.client.sending(PATHS["chat"], body) as opened:
                received = await a.arrived(1)
                opened.leave()
                await received.peer_close()
            await plane.idle()
            record = await g.record()

    assert len(plane.given_back) == 1
    assert (record["outcome"], record["recipe"]) == ("cancelled", "one")


async def test_the_last_byte_does_not_wait_for_the_lease_to_go_back() -> None:
    a = FakeEngine("a")
    async with Plane({"one": a}, loaded="one") as plane:
        async with gateway(node(plane, {"chat": on_slot(a, "one")})) as g:
            plane.taking.clear()
            answer = await g.client.ask("chat", stream=True)
            record = await g.record()
            again = await g.client.ask("chat")
            plane.taking.set()

    assert answer.done
    assert record["outcome"] == "ok"
    assert again.status == 200
    assert len(plane.given_back) == 2


async def test_a_failed_attempt_gives_its_lease_back_and_the_next_takes_another() -> None:
    a = FakeEngine("a", script=[error(500), error(502)])
    given = {"chat": on_slot(a, "one")}
    async with Plane({"one": a}, loaded="one") as plane:
        async with gateway(node(plane, given, router={"num_retries": 2})) as g:
            answer = await g.client.ask("chat")
            record = await g.record()
            await plane.idle()

    assert answer.status == 200
    assert [x["outcome"] for x in record["attempts"]] == ["http-500", "http-502", "ok"]
    assert len(plane.asked) == 3
    assert len(set(plane.given_back)) == len(plane.given_back) == 3


async def test_leases_are_renewed_while_their_requests_run_and_no_longer() -> None:
    gate = asyncio.Event()
    slow = stream([delta("one "), Hold(gate), delta("two"), delta(finish="stop"), DONE])
    a = FakeEngine("a", otherwise=lambda r: slow if r.streams else Say()(r))
    async with Plane({"one": a}, loaded="one") as plane:
        async with gateway(node(plane, {"chat": on_slot(a, "one")})) as g:
            g.server.slots.leases.renew_s = 0.05
            body = question("chat", stream=True)
            async with g.client.open(PATHS["chat"], body) as opened:
                async with g.client.open(PATHS["chat"], body) as other:
                    await plane.renewals(3)
                    both = plane.renewed[-1]
                    gate.set()
                    await opened.rest()
                    await other.rest()
            await plane.idle()
            count = len(plane.renewed)
            await g.client.ask("chat")
            await plane.idle()

    assert sorted(both) == sorted(plane.given_back[:2])
    assert count >= 3
    assert all(len(set(leases)) == len(leases) for leases in plane.renewed)


async def test_a_lost_lease_keeps_its_stream_and_is_in_the_record() -> None:
    gate = asyncio.Event()
    slow = stream([delta("one "), Hold(gate), delta("two"), delta(finish="stop"), DONE])
    a = FakeEngine("a", otherwise=slow)
    async with Plane({"one": a}, loaded="one") as plane:
        async with gateway(node(plane, {"chat": on_slot(a, "one")})) as g:
            g.server.slots.leases.renew_s = 0.05
            async with g.client.open(PATHS["chat"], question("chat", stream=True)) as opened:
                await opened.text(1)
                plane.lost = set(plane.held)
                await until(lambda: g.server.slots.leases.lost == 1)
                metrics = (await g.metrics()).splitlines()
                gate.set()
                answer = await opened.rest()
            record = await g.record()
            await plane.idle()

    assert (answer.text, answer.done) == ("one two", True)
    assert record["outcome"] == "ok"
    assert [x["outcome"] for x in record["attempts"]] == ["ok-lease-lost"]
    assert "gateway_slot_leases 1.0" in metrics
    assert "gateway_slot_leases_lost_total 1.0" in metrics


async def test_the_drain_gives_leases_back_before_the_gateway_ends() -> None:
    a = FakeEngine("a", otherwise=SILENT)
    async with Plane({"one": a}, loaded="one") as plane:
        given = node(plane, {"chat": on_slot(a, "one")}, settings={"drain_s": 0.05})
        async with gateway(given, leaks=True) as g:
            async with g.client.sending(PATHS["chat"], question("chat")) as opened:
                await a.arrived(1)
                await g.server.drain()
                await opened.head()
                answer = await opened.rest()
            await g.server.stop()
            back = list(plane.given_back)

    assert answer.status == 503
    assert len(back) == 1


async def test_caps_hold_for_those_who_are_held() -> None:
    """The permit comes before the lease: a second request waits in the line, not at the slot."""
    a = FakeEngine("a")
    given = {"chat": on_slot(a, "one", max_parallel_requests=1)}
    async with Plane({"one": a}) as plane:
        async with gateway(node(plane, given)) as g, asyncio.TaskGroup() as group:
            first = group.create_task(g.client.ask("chat"))
            await plane.asks(1)
            second = group.create_task(g.client.ask("chat"))
            async with asyncio.timeout(5):
                while "gateway_waiting" not in (text := await g.metrics()) or not _waits(text):
                    pass
            held_by = len(plane.asked)
            await plane.load("one")
            await asyncio.gather(first, second)

    assert held_by == 1
    assert (first.result().status, second.result().status) == (200, 200)


def _waits(metrics: str) -> bool:
    lines = [x for x in metrics.splitlines() if "waiting" in x and not x.startswith("#")]
    return any(line.endswith(" 1.0") for line in lines)


async def test_a_slot_that_refuses_the_gateway_is_the_operators_fault() -> None:
    a, spare = FakeEngine("a"), FakeEngine("spare")
    given = {"chat": on_slot(a, "one"), "other": on_slot(a, "gone", "x"), "spare": member(spare)}
    async with Plane({"one": a}, loaded="one") as plane:
        plan = node(plane, given, router={"fallbacks": [{"chat": ["spare"]}]})
        async with gateway(plan) as g:
            unknown = await g.client.ask("other")
            plane.refusal = refused(401, "invalid_api_key")
            carried = await g.client.ask("chat")
            text = await g.metrics()

    assert unknown.error is not None
    assert (unknown.status, unknown.error["code"]) == (502, "slot_unknown_recipe")
    assert "/var/log" not in unknown.error["message"]
    assert (carried.status, carried.deployment) == (200, "spare")
    assert "x-slot-active-profile" not in carried.headers
    assert text
