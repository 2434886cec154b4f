"""Rescue and the rest of the house: pins, caps, rests, heartbeats, and bridged engines."""

from __future__ import annotations

import pytest

from tests.bridging import sender
from tests.engine import FakeEngine
from tests.engine_answers import Pause
from tests.engine_says import Say
from tests.failover.carried import BOTH_WAYS, SENT, breaks, carries_on, pair, whole
from tests.failover.pace import LoopClock
from tests.failover.reply import TOKENS, WHOLE, WORDS
from tests.harness import gateway
from tests.node import Node, member


async def test_a_pin_without_fallbacks_gets_no_rescue() -> None:
    a, b = FakeEngine("a", otherwise=breaks()), FakeEngine("b", otherwise=carries_on)
    node = Node(
        {"chat": a, "spare": member(b, {"accepts_prefix": True})},
        tiers={"auxiliary": ["chat", "spare"]},
        pins={"alone": {"model": "chat", "fallbacks": False}, "helped": "chat"},
        router={"fallbacks": [{"chat": ["spare"]}]},
        settings={"rescue": {"chat": list(BOTH_WAYS)}},
    )

    async with gateway(node) as g:
        alone = await g.client.ask("task/alone", stream=True)
        helped = await g.client.ask("task/helped", stream=True)

    assert alone.error is not None
    assert alone.text == SENT
    assert helped.text == WHOLE
    assert len(b.requests) == 1


async def test_a_spare_at_its_cap_is_not_waited_for() -> None:
    """Saturation is skipped, not queued for: the break is told at once."""
    a, b = FakeEngine("a", otherwise=breaks()), FakeEngine("b", held=True)
    node = Node(
        {"chat": a, "spare": member(b, {"accepts_prefix": True}, max_parallel_requests=1)},
        router={"fallbacks": [{"chat": ["spare"]}]},
        settings={"rescue": {"chat": list(BOTH_WAYS)}},
    )

    async with gateway(node) as g:
        async with g.client.sending("/v1/chat/completions", {"model": "spare", "messages": []}):
            await b.arrived(1)
            got = await g.client.ask("chat", stream=True, within_s=2)

    assert got.error is not None
    assert len(b.requests) == 1


async def test_a_spare_that_rests_is_not_asked() -> None:
    a, b = FakeEngine("a", otherwise=breaks()), FakeEngine("b", status=503)
    node = Node(
        {"chat": a, "spare": member(b, {"accepts_prefix": True})},
        router={
            "fallbacks": [{"chat": ["spare"]}],
            "allowed_fails": 0,
            "num_retries": 0,
            "cooldown_time": 60,
        },
        settings={"rescue": {"chat": list(BOTH_WAYS)}},
    )

    async with gateway(node, clock=LoopClock()) as g:
        await g.client.ask("spare")
        asked = len(b.requests)
        got = await g.client.ask("chat", stream=True)

    assert got.error is not None
    assert len(b.requests) == asked


async def test_what_a_fallback_began_its_own_fallback_carries_on() -> None:
    """A fails before content, B breaks after it, C carries on: each spare once."""
    a, b = FakeEngine("a", status=503), FakeEngine("b", otherwise=breaks())
    c = FakeEngine("c", otherwise=carries_on)
    node = Node(
        {"chat": a, "spare": b, "third": member(c, {"accepts_prefix": True})},
        router={"fallbacks": [{"chat": ["spare", "third"]}], "num_retries": 0},
        settings={"rescue": {"chat": list(BOTH_WAYS)}},
    )

    async with gateway(node) as g:
        got = await g.client.ask("chat", stream=True)
        record = await g.record()

    assert got.text == WHOLE
    assert got.done
    assert [x["deployment"] for x in record["attempts"]] == ["a", "b", "c"]


async def test_heartbeats_go_on_while_the_spare_thinks() -> None:
    """They stand between whole events, also at the seam."""
    slow = Say(words=WORDS[40:], tokens=TOKENS, before=(Pause(5.0),))
    node, *_ = pair(breaks(), slow, ways=["continue"], heartbeat_s=1)

    async with gateway(node) as g:
        got = await g.client.ask("chat", stream=True, within_s=60)

    assert got.text == WHOLE
    assert got.done
    assert 3 <= got.body.count(b": keep-alive\n\n") <= 6


async def test_a_broken_stream_counts_once_against_its_engine_and_a_rescue_for_the_spare() -> None:
    """More than `allowed_fails` broken streams rest A; B stays well."""
    node, a, _ = pair(breaks(), whole(), info={})

    async with gateway(node, clock=LoopClock()) as g:
        for _ in range(5):
            await g.client.ask("chat", stream=True)
        rests = {d: f'gateway_deployment_resting{{deployment="{d}"' for d in ("a", "b")}
        metrics = (await g.metrics()).splitlines()

    resting = {d: next(x for x in metrics if x.startswith(s))[-3:] for d, s in rests.items()}
    assert resting == {"a": "1.0", "b": "0.0"}
    assert len(a.requests) == 4


SEAMS = {"relayed, then bridged": (False, True), "bridged, then relayed": (True, False)}


@pytest.mark.parametrize("seam", SEAMS)
@pytest.mark.parametrize("way", BOTH_WAYS)
async def test_a_rescue_crosses_the_bridge(seam: str, way: str, bridge_path: str) -> None:
    """The client speaks Messages; one of the two engines speaks chat alone."""
    first, second = (["chat"] if bridged else ["messages"] for bridged in SEAMS[seam])
    a, b = FakeEngine("a", otherwise=breaks()), FakeEngine("b", otherwise=carries_on)
    info = {"apis": second, "accepts_prefix": way == "continue", "engine": "vllm"}
    node = Node(
        {"chat": member(a, {"apis": first}), "spare": member(b, info)},
        router={"fallbacks": [{"chat": ["spare"]}], "timeout": 60},
        settings={"rescue": {"chat": list(BOTH_WAYS)}},
    )

    async with gateway(node, bridge=sender(bridge_path)) as g:
        got = await g.client.ask("chat", dialect="messages", stream=True, within_s=60)
        record = await g.record()

    assert got.text == WHOLE
    assert got.error is None
    assert got.done
    assert [x["outcome"] for x in record["attempts"]] == ["broken", "ok"]
    assert record["estimated"] is False
