"""Bridged deployments are routed like any other: faults, fallbacks, cancel, rests and caps."""

from __future__ import annotations

import asyncio

import pytest

from tests.bridge.conftest import Start
from tests.bridge.test_providers import EVERY_WAY, provider
from tests.client import PATHS, question
from tests.clock import Clock
from tests.engine import FakeEngine
from tests.engine_answers import RESET, SILENT, Answer, Send, error, head
from tests.engine_says import Say
from tests.engine_wire import Received
from tests.node import Node
from tests.sse import ended_well

CLOSE_S = 0.1


@EVERY_WAY
@pytest.mark.parametrize("status", [400, 403, 404, 413, 422])
async def test_the_clients_faults_come_back_at_once(
    bridged: Start, model: str, status: int
) -> None:
    """FBK-10: one attempt, status and words kept, nothing counted."""
    engine, spare = FakeEngine("p", otherwise=error(status, "no good")), FakeEngine("spare")
    node = Node(
        {"chat": provider(engine, model), "spare": spare},
        router={"fallbacks": [{"chat": ["spare"]}], "num_retries": 3},
    )

    async with bridged(node) as g:
        got = await g.client.ask("chat", stream=True)

    assert got.status == status
    assert "no good" in got.json["error"]["message"]
    assert "Exception" not in got.json["error"]["message"]
    assert len(engine.requests) == 1
    assert not spare.requests


@EVERY_WAY
@pytest.mark.parametrize("status", [408, 429, 500, 502, 503, 529])
@pytest.mark.parametrize("streamed", [True, False])
async def test_the_providers_faults_fall_back(
    bridged: Start, model: str, status: int, streamed: bool
) -> None:
    """FBK-13: a bridged primary, a relayed spare; streamed or not."""
    engine, spare = FakeEngine("p", otherwise=error(status, "sick")), FakeEngine("spare")
    node = Node(
        {"chat": provider(engine, model), "spare": spare},
        router={"fallbacks": [{"chat": ["spare"]}], "num_retries": 0},
    )

    async with bridged(node) as g:
        got = await g.client.ask("chat", stream=streamed)
        record = await g.record()

    assert got.status == 200
    assert [a["deployment"] for a in record["attempts"]] == ["p", "spare"]
    assert record["attempts"][0]["outcome"] == f"http-{status}"
    assert len(engine.requests) == 1


async def test_a_relayed_primary_falls_back_to_a_bridged_burst(bridged: Start) -> None:
    engine, burst = FakeEngine("e", status=503), FakeEngine("burst")
    node = Node(
        {"chat": engine, "burst": provider(burst, "nebius/some/model")},
        tiers={"burst": ["burst"]},
        router={"fallbacks": [{"chat": ["burst"]}], "num_retries": 0},
    )

    async with bridged(node) as g:
        got = await g.client.ask("chat", stream=True)
        record = await g.record()

    assert got.text == "Hello from here"
    assert record["deployment"] == "burst"
    assert record["group"] == "burst"


@EVERY_WAY
async def test_what_refuses_connections_or_breaks_off_falls_back(
    bridged: Start, model: str
) -> None:
    closed = FakeEngine("closed", phase="closed")
    reset = FakeEngine("reset", otherwise=RESET)
    spare = FakeEngine("spare")
    node = Node(
        {
            "chat": [provider(closed, model), provider(reset, model)],
            "spare": spare,
        },
        router={"fallbacks": [{"chat": ["spare"]}], "num_retries": 1},
    )

    async with bridged(node) as g:
        got = await g.client.ask("chat")
        record = await g.record()

    assert got.status == 200
    outcomes = {a["deployment"]: a["outcome"] for a in record["attempts"]}
    assert outcomes == {"closed": "connect-error", "reset": "broken", "spare": "ok"}


@EVERY_WAY
async def test_a_prompt_that_is_too_long_goes_to_the_context_fallback(
    bridged: Start, model: str
) -> None:
    """FBK-07."""
    said = "This model's maximum context length is 10 tokens. However, you requested 20 tokens."
    engine, spare, big = (
        FakeEngine("p", otherwise=error(400, said)),
        FakeEngine("s"),
        FakeEngine("b"),
    )
    node = Node(
        {"chat": provider(engine, model), "spare": spare, "big": big},
        router={
            "fallbacks": [{"chat": ["spare"]}],
            "context_window_fallbacks": [{"chat": ["big"]}],
        },
    )

    async with bridged(node) as g:
        got = await g.client.ask("chat")

    assert got.status == 200
    assert (len(big.requests), len(spare.requests)) == (1, 0)


@EVERY_WAY
async def test_retry_after_is_the_clients_to_see(bridged: Start, model: str) -> None:
    """ERR-05."""
    engine = FakeEngine("p", otherwise=error(429, "slow down", headers=[("Retry-After", "7")]))

    async with bridged(Node({"chat": provider(engine, model)})) as g:
        got = await g.client.ask("chat")

    assert got.status == 429
    assert got.headers["retry-after"] == "7"


@EVERY_WAY
async def test_a_redirect_is_not_followed(bridged: Start, model: str) -> None:
    trap = FakeEngine("trap")

    async with trap:
        away = Send(head(307, [("Location", f"{trap.url}/chat/completions")], length=0))
        engine = FakeEngine("p", otherwise=(away,))
        async with bridged(Node({"chat": provider(engine, model)})) as g:
            got = await g.client.ask("chat")

    assert got.status == 502
    assert got.json["error"]["code"] == "upstream_misconfigured"
    assert not trap.requests


@EVERY_WAY
async def test_a_stream_that_is_cut_is_an_error_event(bridged: Start, model: str) -> None:
    """FBK-01, ACC-10: after content nothing is spliced, and nothing is dressed as complete."""
    words = Say(("Hello", " from", " here"))

    def cut(received: Received) -> Answer:
        return (*words(received)[:4], *RESET)

    engine, spare = FakeEngine("p", otherwise=cut), FakeEngine("spare")
    node = Node(
        {"chat": provider(engine, model), "spare": spare},
        router={"fallbacks": [{"chat": ["spare"]}]},
    )

    async with bridged(node) as g:
        got = await g.client.ask("chat", stream=True)
        record = await g.record()

    assert got.error is not None
    assert not ended_well(got.events)
    assert record["outcome"] == "failed"
    assert not spare.requests


@EVERY_WAY
@pytest.mark.parametrize("phase", ["prefill", "whole", "stream"])
async def test_the_provider_sees_a_client_leave(bridged: Start, model: str, phase: str) -> None:
    """CAN-01, CAN-03: within 100 ms, whatever way the call goes; the permit is back."""

    def some(received: Received) -> Answer:
        return SILENT if phase != "stream" else (*Say()(received)[:6], *SILENT)

    engine = FakeEngine("p", otherwise=some)
    node = Node({"chat": provider(engine, model, max_parallel_requests=1)})

    async with bridged(node) as g:
        body = question("chat", "chat", stream=phase != "whole")
        async with g.client.sending(PATHS["chat"], body) as opened:
            arrived = await engine.arrived(1)
            if phase == "stream":
                await opened.head()
                await opened.text(1)
            left_at = opened.leave()
            closed_at = await arrived.peer_close()
        record = await g.record()
        await g.idle()

    assert closed_at - left_at < CLOSE_S
    assert record["outcome"] == "cancelled"


@EVERY_WAY
async def test_a_bridged_deployment_rests_and_is_capped_like_any_other(
    bridged: Start, model: str, clock: Clock
) -> None:
    """Cooldown after allowed_fails, then a trial; permits hold."""
    engine, spare = FakeEngine("p", script=[error(503), error(503)]), FakeEngine("spare")
    node = Node(
        {"chat": provider(engine, model, cooldown_time=45), "spare": spare},
        router={"fallbacks": [{"chat": ["spare"]}], "num_retries": 0, "allowed_fails": 1},
    )

    async with bridged(node, clock=clock) as g:
        for _ in range(4):
            assert (await g.client.ask("chat", stream=True)).status == 200
        assert len(engine.requests) == 2

        clock.tick(45.0)
        await g.client.ask("chat", stream=True)

    assert len(engine.requests) == 3


async def test_parallel_caps_hold_for_bridged_deployments(bridged: Start) -> None:
    engine = FakeEngine("p", held=True)
    node = Node({"chat": provider(engine, "nebius/some/model", max_parallel_requests=1)})

    async with bridged(node) as g, asyncio.TaskGroup() as tasks:
        asked = [tasks.create_task(g.client.ask("chat")) for _ in range(4)]
        await engine.arrived(1)
        await engine.release()
    statuses = [task.result().status for task in asked]

    assert engine.peak == 1
    assert statuses == [200] * 4
