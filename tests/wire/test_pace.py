"""The pace of a stream: what is held, heartbeats, slow readers, slow engines."""

from __future__ import annotations

import asyncio

import pytest

from tests.client import PATHS, question
from tests.engine import FakeEngine
from tests.engine_answers import (
    Answer,
    Hold,
    Pause,
    Silence,
    spaced,
    stream,
)
from tests.engine_says import DONE, Say, chat_events, delta
from tests.harness import gateway
from tests.node import Node, member

WORDS = [f"word{n} " for n in range(60)]


CHAT_ROUTES = pytest.mark.parametrize("dialect", ["chat", "messages"])


def one(*answers: Answer, **info: object) -> tuple[Node, FakeEngine]:
    engine = FakeEngine("e", script=answers)
    return Node({"chat": member(engine, info or None)}, router={"num_retries": 0}), engine


async def test_a_slow_stream_that_delivers_is_never_cut() -> None:
    """NET-04: pauses below the idle limit add up to more than every limit."""
    engine = FakeEngine("e", otherwise=Say(words=("w",) * 8, between=(Pause(0.1),)))
    node = Node({"chat": member(engine, {"stream_idle_timeout_s": 0.3}, timeout=0.4)})

    async with gateway(node) as g:
        got = await g.client.ask("chat", stream=True)

    assert got.done


async def test_events_before_content_are_held_while_another_could_serve() -> None:
    """Section 5, step 7: the role chunk is a promise; after `hold_s` it is let go."""
    gate = asyncio.Event()
    role = delta("", role="assistant")
    a = FakeEngine("a", otherwise=stream([role, Hold(gate), *chat_events(["x"])[1:], DONE]))
    b = FakeEngine("b")
    node = Node(
        {"chat": member(a, timeout=30), "spare": b},
        router={"fallbacks": [{"chat": ["spare"]}]},
        settings={"hold_s": 0.3},
    )

    async with gateway(node) as g:
        async with g.client.sending(PATHS["chat"], question("chat", stream=True)) as opened:
            received = await a.arrived(1)
            await opened.head()
            waited = opened.reply.head_at - received.at
            assert (await opened.event()).raw == role
            gate.set()
            got = await opened.rest()

    assert 0.25 < waited < 0.8
    assert got.done
    assert b.requests == []


async def test_without_another_candidate_events_go_at_once() -> None:
    gate = asyncio.Event()
    role = delta("", role="assistant")
    node, engine = one(stream([role, Hold(gate), *chat_events(["x"])[1:], DONE]))

    async with gateway(node) as g:
        async with g.client.sending(PATHS["chat"], question("chat", stream=True)) as opened:
            received = await engine.arrived(1)
            await opened.head()
            assert opened.reply.head_at - received.at < 0.2
            assert (await opened.event()).raw == role
            gate.set()
            await opened.rest()


@CHAT_ROUTES
async def test_heartbeats_keep_a_silent_stream_open_and_are_no_content(dialect: str) -> None:
    """STR-07, STR-21: exact bytes; no first token; the stall timer runs on."""
    engine = FakeEngine("e", otherwise=Say(before=(Pause(0.5),)))
    node = Node({"chat": engine}, settings={"heartbeat_s": 0.1})

    async with gateway(node) as g:
        got = await g.client.ask("chat", dialect=dialect, stream=True)
        record = await g.record()

    beats = [e for e in got.events if e.data is None]
    assert 3 <= len(beats) <= 5
    assert {e.raw for e in beats} == {b": keep-alive\n\n"}
    assert got.text == "Hello from here"
    assert got.done
    assert record["ttft_ms"] >= 450


async def test_after_a_heartbeat_other_candidates_still_serve() -> None:
    """The first heartbeat fixes status 200 and nothing more."""
    a, b = FakeEngine("a", otherwise=(Silence(),)), FakeEngine("b")
    node = Node(
        {"chat": member(a, timeout=0.35), "spare": b},
        router={"fallbacks": [{"chat": ["spare"]}]},
        settings={"heartbeat_s": 0.1},
    )

    async with gateway(node) as g:
        got = await g.client.ask("chat", stream=True)

    assert got.text == "Hello from here"
    assert got.done
    assert [e.raw for e in got.events][0] == b": keep-alive\n\n"


async def test_after_a_heartbeat_a_final_failure_is_an_error_event() -> None:
    engine = FakeEngine("e", otherwise=(Silence(),))
    node = Node(
        {"chat": member(engine, timeout=0.35)},
        router={"num_retries": 0},
        settings={"heartbeat_s": 0.1},
    )

    async with gateway(node) as g:
        got = await g.client.ask("chat", stream=True)
        record = await g.record()

    assert got.status == 200
    assert got.error is not None
    assert not got.done
    assert record["outcome"] == "failed"


async def test_a_slow_reader_stops_the_engine_and_not_the_others() -> None:
    """Write backpressure reaches the engine's socket; memory does not grow with the answer."""
    big = delta("x" * 60_000)
    parts = [delta("", role="assistant"), *[big] * 300, delta(finish="stop"), DONE]  # 18 MB
    slow, fast = FakeEngine("slow", otherwise=stream(parts)), FakeEngine("fast")
    node = Node({"slow": slow, "fast": fast})

    async with gateway(node) as g:
        body = question("slow", stream=True)
        async with g.client.open(PATHS["chat"], body, limit=4096) as opened:
            async with asyncio.timeout(5):
                while not any(c.blocked for c in slow.connections):
                    assert (await g.client.ask("fast")).status == 200
            got = await opened.rest()

    assert got.done
    assert len(got.body) == len(b"".join(parts))


async def test_a_client_that_takes_nothing_is_let_go() -> None:
    """Section 5, step 7: `client_write_timeout_s`."""
    big = delta("x" * 60_000)
    engine = FakeEngine("e", otherwise=stream([*[big] * 300, delta(finish="stop"), DONE]))
    node = Node({"chat": engine}, settings={"client_write_timeout_s": 0.3})

    async with gateway(node) as g:
        body = question("chat", stream=True)
        async with g.client.open(PATHS["chat"], body, limit=4096):
            received = await engine.arrived(1)
            await received.peer_close(3)
            await g.idle()
            record = await g.record()

    assert record["outcome"] in ("cancelled", "failed")


async def test_the_gap_between_events_is_the_engines() -> None:
    """STR-19: 30 events 15 ms apart arrive apart, not in one burst."""
    parts = spaced([delta(w) for w in WORDS[:30]], 0.015)
    node, _ = one(stream([*parts, delta(finish="stop"), DONE]))

    async with gateway(node) as g:
        async with g.client.open(PATHS["chat"], question("chat", stream=True)) as opened:
            times = [(await opened.event()).at for _ in range(30)]
            await opened.rest()

    gaps = [b - a for a, b in zip(times, times[1:], strict=False)]
    assert sum(gap > 0.005 for gap in gaps) > 24
