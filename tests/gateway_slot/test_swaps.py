"""A request that meets a swap: held or refused, never a failure; a swap under it, told as one."""

from __future__ import annotations

import asyncio
import time

import pytest

from tests.client import PATHS, question
from tests.engine import FakeEngine
from tests.engine_answers import Answer, Close, Hold, error, reply, stream
from tests.engine_says import Say, delta, event
from tests.engine_wire import Received
from tests.gateway_slot.plane import Plane, node, on_slot, refused
from tests.harness import Running, configured, gateway, until
from tests.node import member

DIALECTS = pytest.mark.parametrize("dialect", ["chat", "messages"])
STREAMED = pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])


def pair() -> tuple[FakeEngine, FakeEngine]:
    return FakeEngine("a"), FakeEngine("b")


def resting(g: Running) -> list[str]:
    """The deployments that rest after failures."""
    return [d.id for d in g.server.now().deployments if d.rests_s is not None]


@DIALECTS
@STREAMED
async def test_a_request_for_another_recipe_is_held_until_it_is_loaded(
    dialect: str, streamed: bool
) -> None:
    """The hold is queue time: the deployment's own limit begins with the lease."""
    a, b = pair()
    groups = {"one": on_slot(a, "one"), "two": on_slot(b, "two", timeout=0.3)}
    async with Plane({"one": a, "two": b}, loaded="one") as plane:
        async with gateway(node(plane, groups)) as g, asyncio.TaskGroup() as tasks:
            asked = tasks.create_task(g.client.ask("two", dialect=dialect, stream=streamed))
            await plane.asks(1)
            await asyncio.sleep(0.4)  # longer than the deployment's limit
            await plane.load("two")
            answer = await asked
            record = await g.record()

    assert answer.status == 200
    assert answer.error is None
    assert record["queue_ms"] >= 400
    assert record["attempts"][0]["ms"] < 300
    assert record["recipe"] == "two"


@DIALECTS
@STREAMED
@pytest.mark.parametrize("by", ["file", "header"])
async def test_where_nobody_waits_it_is_503_at_once_with_the_planes_own_time(
    dialect: str, streamed: bool, by: str
) -> None:
    a, b = pair()
    slot = {"on_swap": "refuse"} if by == "file" else {}
    headers = {"X-Slot-Wait": "0"} if by == "header" else {}
    groups = {"one": on_slot(a, "one"), "two": on_slot(b, "two")}
    async with Plane({"one": a, "two": b}, loaded="one") as plane:
        async with gateway(node(plane, groups, slot=slot)) as g:
            answer = await g.client.ask("two", dialect=dialect, stream=streamed, headers=headers)
            record = await g.record()

    assert (answer.status, answer.headers["retry-after"]) == (503, "7")
    assert answer.error is not None
    assert answer.error["code"] == "slot_swapping"
    assert answer.error["type"] == (
        "overloaded_error" if dialect == "messages" else "service_unavailable_error"
    )
    assert "/var/log" not in answer.error["message"]
    assert (record["outcome"], record["error"]) == ("failed", "slot_swapping")
    assert [x["outcome"] for x in record["attempts"]] == ["slot-swapping"]
    assert b.requests == []


@pytest.mark.parametrize(
    ("header", "waits"), [(None, 20.0), ("3.5", 3.5), ("99999", 20.0), ("0", 0.0)]
)
async def test_the_callers_wait_is_capped_by_the_files(header: str | None, waits: float) -> None:
    a, b = pair()
    headers = {} if header is None else {"X-Slot-Wait": header}
    async with Plane({"one": a, "two": b}, loaded="two") as plane:
        given = node(plane, {"two": on_slot(b, "two")}, slot={"max_hold_s": 20})
        async with gateway(given, a) as g:
            answer = await g.client.ask("two", headers=headers)

    assert answer.status == 200
    assert plane.asked[0].json["wait_s"] == pytest.approx(waits, abs=0.01)


async def test_a_wait_by_the_caller_holds_where_the_file_refuses() -> None:
    a, b = pair()
    async with Plane({"one": a, "two": b}, loaded="one") as plane:
        given = node(plane, {"two": on_slot(b, "two")}, slot={"on_swap": "refuse"})
        async with gateway(given, a) as g, asyncio.TaskGroup() as tasks:
            asked = tasks.create_task(g.client.ask("two", headers={"X-Slot-Wait": "10"}))
            await plane.asks(1)
            await plane.load("two")
            answer = await asked

    assert answer.status == 200


async def test_a_wait_that_is_no_number_is_the_clients_fault() -> None:
    a = FakeEngine("a")
    async with Plane({"one": a}, loaded="one") as plane:
        async with gateway(node(plane, {"chat": on_slot(a, "one")})) as g:
            answer = await g.client.ask("chat", headers={"X-Slot-Wait": "soon"})
            ignored = await g.client.ask("chat", headers={"X-Slot-Wait": " 2 "})

    assert (answer.status, ignored.status) == (400, 200)
    assert answer.error is not None
    assert "X-Slot-Wait" in answer.error["message"]


@DIALECTS
async def test_a_held_stream_beats_and_its_refusal_is_an_event(dialect: str) -> None:
    a, b = pair()
    async with Plane({"one": a, "two": b}, loaded="one") as plane:
        given = node(plane, {"two": on_slot(b, "two")}, slot={"max_hold_s": 0.4})
        async with gateway(given, a) as g:
            g.server.slots.hold_beat_s = 0.1
            answer = await g.client.ask("two", dialect=dialect, stream=True)
            record = await g.record()

    assert answer.status == 200
    assert answer.body.count(b": keep-alive\n\n") >= 2
    assert answer.error is not None
    assert answer.error["code"] == "slot_waited"
    assert not answer.done
    assert (record["status"], record["outcome"]) == (200, "failed")


async def test_a_held_stream_beats_no_more_once_it_runs() -> None:
    a, b = pair()
    gate = asyncio.Event()
    b.otherwise = Say(before=(Hold(gate),))
    async with Plane({"one": a, "two": b}, loaded="one") as plane:
        async with gateway(node(plane, {"two": on_slot(b, "two")}), a) as g:
            g.server.slots.hold_beat_s = 0.05
            async with g.client.open(PATHS["chat"], question("two", stream=True)) as opened:
                await plane.load("two")
                await b.arrived(1)
                beaten = opened.reply.body.count(b"keep-alive")
                await asyncio.sleep(0.3)  # six beats, if it still beat
                gate.set()
                answer = await opened.rest()

    assert answer.text == "Hello from here"
    assert answer.body.count(b"keep-alive") - beaten <= 2


async def test_a_whole_answer_is_held_in_silence_and_then_503() -> None:
    a, b = pair()
    async with Plane({"one": a, "two": b}, loaded="one") as plane:
        given = node(
            plane,
            {"two": on_slot(b, "two")},
            slot={"max_hold_s": 0.2},
            settings={"heartbeat_s": 0.02},
        )
        async with gateway(given, a) as g:
            answer = await g.client.ask("two")

    assert (answer.status, answer.headers["retry-after"]) == (503, "9")
    assert answer.error is not None
    assert answer.error["code"] == "slot_waited"


@STREAMED
async def test_a_held_client_that_leaves_closes_its_call_at_once(streamed: bool) -> None:
    a, b = pair()
    async with Plane({"one": a, "two": b}, loaded="one") as plane:
        async with gateway(node(plane, {"two": on_slot(b, "two")}), a) as g:
            body = question("two", stream=streamed)
            async with g.client.sending(PATHS["chat"], body) as opened:
                waiting = await plane.asks(1)
                left_at = opened.leave()
                closed_at = await waiting.peer_close()
            record = await g.record()

    assert closed_at - left_at < 0.1
    assert record["outcome"] == "cancelled"
    assert (plane.given_back, plane.held) == ([], set())


async def test_many_are_held_together_and_all_are_served() -> None:
    a, b = pair()
    groups = {"one": on_slot(a, "one"), "two": on_slot(b, "two")}
    async with Plane({"one": a, "two": b}, loaded="one") as plane:
        async with gateway(node(plane, groups)) as g, asyncio.TaskGroup() as tasks:
            held = [
                tasks.create_task(g.client.ask("two", dialect=d, stream=s))
                for d in ("chat", "messages")
                for s in (False, True)
                for _ in range(5)
            ]
            await plane.asks(20)
            passing = await g.client.ask("one")
            await plane.load("two")
            answers = await asyncio.gather(*held)
            await plane.idle()

    assert passing.status == 200
    assert {answer.status for answer in answers} == {200}
    assert len(plane.given_back) == len(set(plane.given_back)) == 21


async def test_a_swap_is_no_failure_no_cooldown_no_retry_and_no_fallback() -> None:
    """SWP-08's other half: whoever must wait is told so, and nobody is blamed."""
    a, b = pair()
    spare = FakeEngine("spare")
    groups = {"two": on_slot(b, "two"), "spare": spare}
    router = {"fallbacks": [{"two": ["spare"]}], "num_retries": 3, "allowed_fails": 0}
    slot = {"on_swap": "refuse"}
    async with Plane({"one": a, "two": b}, loaded="one") as plane:
        async with gateway(node(plane, groups, slot=slot, router=router), a) as g:
            refused_ = [await g.client.ask("two") for _ in range(5)]
            rests = resting(g)
            await plane.load("two")
            answer = await g.client.ask("two")

    assert rests == []
    assert {r.status for r in refused_} == {503}
    assert {r.attempts for r in refused_} == {1}
    assert (answer.status, answer.deployment) == (200, "b")
    assert spare.requests == []


@STREAMED
async def test_burst_bridges_a_swap_where_the_file_says_so(streamed: bool) -> None:
    a, b = pair()
    spare = FakeEngine("spare")
    groups = {"two": on_slot(b, "two"), "spare": spare}
    slot = {"on_swap": "refuse", "burst_bridges_swap": True}
    router = {"fallbacks": [{"two": ["spare"]}], "allowed_fails": 0}
    async with Plane({"one": a, "two": b}, loaded="one") as plane:
        async with gateway(node(plane, groups, slot=slot, router=router), a) as g:
            bridged = await g.client.ask("two", stream=streamed)
            await plane.load("two")
            home = await g.client.ask("two", stream=streamed)
            first, second = await g.records(2)

    assert (bridged.status, bridged.deployment) == (200, "spare")
    assert (home.status, home.deployment) == (200, "b")
    assert (first["recipe"], second["recipe"]) == (None, "two")


async def test_another_member_of_the_group_serves_while_the_slot_swaps() -> None:
    a, b = pair()
    beside = FakeEngine("beside")
    groups = {"two": [on_slot(b, "two", order=None), member(beside, order=2)]}
    slot = {"on_swap": "refuse"}
    async with Plane({"one": a, "two": b}, loaded="one") as plane:
        async with gateway(node(plane, groups, slot=slot), a) as g:
            answer = await g.client.ask("two")

    assert (answer.status, answer.deployment, answer.attempts) == (200, "beside", 2)


@DIALECTS
async def test_a_stream_under_which_the_slot_was_swapped_says_so_and_counts_against_nobody(
    dialect: str,
) -> None:
    """SWP-03: the forced limit acted; the client gets an error event in its dialect."""
    a = FakeEngine("a")
    gate = asyncio.Event()

    def cut(received: Received) -> Answer:
        said = delta("one ")
        if dialect == "messages":
            inner = {"type": "text_delta", "text": "one "}
            text = {"type": "content_block_delta", "index": 0, "delta": inner}
            said = event(text, "content_block_delta")
        return stream([said, Hold(gate), Close()], end=False)

    a.script = [cut]
    router = {"allowed_fails": 0, "cooldown_time": 60, "num_retries": 0}
    async with Plane({"one": a}, loaded="one") as plane:
        async with gateway(node(plane, {"chat": on_slot(a, "one")}, router=router)) as g:
            body = question("chat", dialect, stream=True)
            async with g.client.open(PATHS[dialect], body) as opened:
                await opened.text(1)
                plane.ended = dict.fromkeys(plane.held, "evicted")
                gate.set()
                answer = await opened.rest()
            rests = resting(g)
            after = await g.client.ask("chat")
            record, _ = await g.records(2)

    assert answer.error is not None
    assert answer.error["code"] == "slot_evicted"
    assert "swapped" in answer.error["message"]
    assert not answer.done
    assert rests == []
    assert after.status == 200
    assert [x["outcome"] for x in record["attempts"]] == ["slot-evicted"]
    assert len(plane.given_back) == 2


async def test_a_whole_answer_under_which_the_slot_was_swapped_is_503_and_come_back() -> None:
    a = FakeEngine("a")
    gate = asyncio.Event()
    head = reply('{"id": "x"}')[0]
    a.script = [(head, Hold(gate), Close())]
    async with Plane({"one": a}, loaded="one") as plane:
        async with gateway(node(plane, {"chat": on_slot(a, "one")})) as g:
            async with g.client.sending(PATHS["chat"], question("chat")) as opened:
                await a.arrived(1)
                await until(lambda: bool(plane.held))
                plane.ended = dict.fromkeys(plane.held, "evicted")
                gate.set()
                await opened.head()
                answer = await opened.rest()

    assert answer.status == 503
    assert answer.error is not None
    assert answer.error["code"] == "slot_evicted"
    assert 1 <= int(answer.headers["retry-after"]) <= 5


async def test_an_engine_that_died_counts_as_any_failure() -> None:
    a = FakeEngine("a", otherwise=error(500))
    router = {"allowed_fails": 0, "cooldown_time": 60, "num_retries": 0}
    async with Plane({"one": a}, loaded="one") as plane:
        plane.ended = {f"{n:032x}": "engine_died" for n in range(9)}
        async with gateway(node(plane, {"chat": on_slot(a, "one")}, router=router)) as g:
            answer = await g.client.ask("chat")
            rests = resting(g)

    assert answer.status == 500
    assert rests == ["a"]


async def test_a_failed_start_goes_on_to_the_fallback_with_its_reason_and_no_cooldown() -> None:
    a, spare = FakeEngine("a"), FakeEngine("spare")
    groups = {"alone": on_slot(a, "one", "x"), "two": on_slot(a, "one"), "spare": spare}
    router = {"fallbacks": [{"two": ["spare"]}], "allowed_fails": 0}
    async with Plane({"one": a}, loaded="one") as plane:
        plane.refusal = refused(503, "failed", 12)
        async with gateway(node(plane, groups, router=router)) as g:
            alone = await g.client.ask("alone")
            carried = await g.client.ask("two")
            rests = resting(g)
            plane.refusal = None
            well = await g.client.ask("two")

    assert alone.error is not None
    assert (alone.status, alone.error["code"]) == (503, "slot_failed")
    assert alone.headers["retry-after"] == "12"
    assert rests == []
    assert carried.deployment == "spare"
    assert well.deployment == "a"


async def test_a_control_plane_that_restarts_is_waited_for() -> None:
    a, b = pair()
    async with Plane({"one": a, "two": b}, loaded="one") as plane:
        async with gateway(node(plane, {"two": on_slot(b, "two")}), a) as g:
            async with asyncio.TaskGroup() as tasks:
                asked = tasks.create_task(g.client.ask("two", stream=True))
                await plane.asks(1)
                await plane.stop()
                await asyncio.sleep(0.2)
                await plane.start()
                again = await plane.asks(2)
                await plane.load("two")
                answer = await asked

    assert (answer.status, answer.text) == (200, "Hello from here")
    assert again.json["wait_s"] < 300


async def test_a_control_plane_that_does_not_answer_is_503_and_no_cooldown() -> None:
    a = FakeEngine("a")
    async with Plane({"one": a}, loaded="one") as plane:
        router = {"allowed_fails": 0}
        given = node(plane, {"chat": on_slot(a, "one")}, slot={"max_hold_s": 0.3}, router=router)
        async with gateway(given) as g:
            await plane.stop()
            at = time.perf_counter()
            held = await g.client.ask("chat")
            took = time.perf_counter() - at
            at_once = await g.client.ask("chat", headers={"X-Slot-Wait": "0"})
            rests = resting(g)
            await plane.start()
            back = await g.client.ask("chat")

    for answer in (held, at_once):
        assert answer.error is not None
        assert (answer.status, answer.error["code"]) == (503, "slot_unreachable")
        assert 1 <= int(answer.headers["retry-after"]) <= 5
    assert took < 1.0
    assert rests == []
    assert back.status == 200


async def test_a_stranger_on_the_control_planes_port_is_no_control_plane() -> None:
    """SWP-11: something answers 200 with HTML on every path."""
    a = FakeEngine("a")
    async with Plane({"one": a}) as plane:
        plane.refusal = reply("<html>hello</html>", content_type="text/html")
        given = node(plane, {"chat": on_slot(a, "one")}, slot={"on_swap": "refuse"})
        async with gateway(given) as g:
            answer = await g.client.ask("chat")

    assert answer.error is not None
    assert (answer.status, answer.error["code"]) == (503, "slot_unreachable")


async def test_a_reload_changes_nothing_for_those_who_are_held() -> None:
    a, b = pair()
    groups = {"two": on_slot(b, "two")}
    async with Plane({"one": a, "two": b}, loaded="one") as plane:
        async with gateway(node(plane, groups), a) as g, asyncio.TaskGroup() as tasks:
            asked = tasks.create_task(g.client.ask("two"))
            await plane.asks(1)
            changed = node(plane, groups, slot={"on_swap": "refuse", "max_hold_s": 0})
            g.server.swap(configured(changed, g.activity))
            newcomer = await g.client.ask("two")
            await plane.load("two")
            answer = await asked

    assert newcomer.status == 503
    assert answer.status == 200
    assert plane.asked[0].json["wait_s"] == 300


async def test_no_page_takes_a_lease_or_asks_the_control_plane() -> None:
    """SWP-16: health, readiness, listings, metrics and a reload load nothing."""
    a, b = pair()
    groups = {"one": on_slot(a, "one"), "active": on_slot(b, "active")}
    pages = ("/health", "/health/live", "/health/ready", "/v1/models", "/metrics", "/api/routes")
    async with Plane({"one": a, "two": b}) as plane:
        async with gateway(node(plane, groups)) as g:
            statuses = [(await g.operator.get(page)).status for page in pages]
            g.server.swap(configured(node(plane, groups, slot={"max_hold_s": 7}), g.activity))
            ready = await g.operator.get("/health/ready")

    assert set(statuses) == {200}
    assert ready.json["status"] == "ready"
    assert (plane.asked, plane.others, a.probes, b.probes) == ([], [], [], [])
