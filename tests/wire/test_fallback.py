"""Failures before the commit point: who is asked next, how often, and what the client sees."""

from __future__ import annotations

import time

import pytest

from tests.captures import load
from tests.engine import FakeEngine
from tests.engine_answers import (
    CLOSED,
    RESET,
    SILENT,
    Answer,
    Close,
    error,
    raw,
    reply,
    stream,
)
from tests.engine_says import DONE, delta, event
from tests.harness import gateway
from tests.node import Node, member

MATRIX = [
    (dialect, stream)
    for dialect in ("chat", "completions", "messages", "responses")
    for stream in (False, True)
]
CELLS = pytest.mark.parametrize(("dialect", "streamed"), MATRIX)
STREAMED = pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
OVERLOAD = event({"error": {"message": "busy", "type": "Service Unavailable", "code": 503}})

FAULTS: dict[str, Answer] = {
    "500": error(500),
    "503": error(503),
    "429": error(429),
    "408": error(408),
    "reset": RESET,
    "close": CLOSED,
    "head then cut": (*stream([], end=False), Close()),
    "html": reply("<html>gone</html>", 502, content_type="text/html"),
    "silence": SILENT,
    "length not delivered": reply('{"id": "x"', says_length=900),
}


def pair(a: FakeEngine, b: FakeEngine, **router: object) -> Node:
    return Node(
        {"chat": member(a, timeout=0.3), "spare": b},
        router={"fallbacks": [{"chat": ["spare"]}], "num_retries": 0, **router},
    )


@CELLS
@pytest.mark.parametrize("fault", FAULTS)
async def test_every_fault_before_content_moves_on_the_same_way(
    dialect: str, streamed: bool, fault: str
) -> None:
    """FBK-13: the same sequence of engines, streamed or not, on every route."""
    a, b = FakeEngine("a", otherwise=FAULTS[fault]), FakeEngine("b")

    async with gateway(pair(a, b)) as g:
        got = await g.client.ask("chat", dialect=dialect, stream=streamed)
        record = await g.record()

    assert got.status == 200
    assert got.deployment == "b"
    assert got.attempts == 2
    assert len(a.requests) == 1
    assert len(b.requests) == 1
    assert got.done or not streamed
    assert [x["deployment"] for x in record["attempts"]] == ["a", "b"]
    assert record["attempts"][0]["outcome"] != "ok"
    assert (record["outcome"], record["deployment"]) == ("ok", "b")


@CELLS
async def test_a_closed_port_moves_on(dialect: str, streamed: bool) -> None:
    a, b = FakeEngine("a"), FakeEngine("b")

    async with gateway(pair(a, b)) as g:
        await a.become("closed")
        got = await g.client.ask("chat", dialect=dialect, stream=streamed)

    assert got.deployment == "b"


async def test_an_engine_that_hangs_after_accept_moves_on() -> None:
    a, b = FakeEngine("a", phase="hang"), FakeEngine("b")

    async with gateway(pair(a, b)) as g:
        got = await g.client.ask("chat", stream=True)

    assert got.deployment == "b"


@pytest.mark.parametrize("dialect", ["chat", "completions"])
async def test_an_error_event_before_content_moves_on(dialect: str) -> None:
    """Overload inside a 200 (vLLM): the first event is read before the commit point."""
    a, b = FakeEngine("a", otherwise=stream([OVERLOAD, DONE])), FakeEngine("b")

    async with gateway(pair(a, b)) as g:
        got = await g.client.ask("chat", dialect=dialect, stream=True)

    assert got.deployment == "b"
    assert got.text == "Hello from here"


CAPTURED = [
    "vllm-0.32.0-scripted/30-overload-3",  # an error event inside a 200, then [DONE]
    "sglang-0.5.23-scripted/30-overload-4",  # the same, with a usage chunk of zeros
    "vllm-0.32.0-scripted/32-overload-nonstream",
    "llamacpp/92-loading-chat",
    "vllm-0.32.0-scripted-noreasoning/90-sigterm-shutdown-timeout-20-chat-after",  # 500, stopping
]


@pytest.mark.parametrize("name", CAPTURED)
@STREAMED
async def test_a_real_engine_that_cannot_serve_is_left_for_the_spare(
    name: str, streamed: bool
) -> None:
    """engines.md 3, 4 and 4b: overload, loading and stopping, from the captured bytes."""
    a, b = FakeEngine("a", otherwise=(*raw(load(name).raw), Close())), FakeEngine("b")

    async with gateway(pair(a, b)) as g:
        got = await g.client.ask("chat", stream=streamed)

    assert got.deployment == "b"
    assert got.status == 200
    assert len(a.requests) == 1


async def test_a_parameter_that_the_spare_refuses_ends_the_request() -> None:
    """FBK-15: A is down, B says 400 to an unknown effort: two attempts, and the 400."""
    a, b = FakeEngine("a", status=503), FakeEngine("b", otherwise=error(400, "unknown effort"))

    async with gateway(pair(a, b)) as g:
        got = await g.client.ask("chat", reasoning_effort="colossal", tool_choice="required")

    assert got.status == 400
    assert "unknown effort" in got.json["error"]["message"]
    assert (len(a.requests), len(b.requests)) == (1, 1)


async def test_a_role_chunk_is_no_content() -> None:
    """FBK-01, before content: role chunk, then a cut; the spare serves one clean stream."""
    role = delta("", role="assistant")
    a = FakeEngine("a", otherwise=(*stream([role], end=False), Close()))
    b = FakeEngine("b")

    async with gateway(pair(a, b)) as g:
        got = await g.client.ask("chat", stream=True)

    assert got.deployment == "b"
    assert got.text == "Hello from here"
    assert len([e for e in got.events if e.data and "role" in e.data]) == 1


@STREAMED
async def test_untried_members_come_before_the_same_one_again(streamed: bool) -> None:
    engines = [FakeEngine(name, status=500) for name in "abc"]
    node = Node({"chat": engines}, router={"num_retries": 2, "allowed_fails": 100})

    async with gateway(node) as g:
        began = time.perf_counter()
        got = await g.client.ask("chat", stream=streamed)
        took = time.perf_counter() - began

    assert got.status == 500
    assert [len(e.requests) for e in engines] == [1, 1, 1]
    assert took < 0.4  # without a pause


@STREAMED
async def test_retries_are_counted_per_group_and_not_restarted(streamed: bool) -> None:
    """FBK-05: one try and the allowed retries in each group, whatever max_fallbacks says."""
    a, b = FakeEngine("a", status=503), FakeEngine("b", status=503)
    node = pair(a, b, num_retries=1, allowed_fails=10, max_fallbacks=5)

    async with gateway(node) as g:
        got = await g.client.ask("chat", stream=streamed)
        record = await g.record()

    assert got.status == 503
    assert (len(a.requests), len(b.requests)) == (2, 2)
    assert got.attempts == 4
    assert len(record["attempts"]) == 4


async def test_fallbacks_are_transitive_each_once() -> None:
    """FBK-04: a diamond of fallbacks asks each group once."""
    a, b, c, d = (FakeEngine(n, status=500) for n in "abcd")
    node = Node(
        {"chat": a, "two": b, "three": c, "four": d},
        router={
            "fallbacks": [{"chat": ["two", "three"]}, {"two": ["four"]}, {"three": ["four"]}],
            "num_retries": 0,
        },
    )

    async with gateway(node) as g:
        got = await g.client.ask("chat")
        record = await g.record()

    assert got.status == 500
    assert [len(e.requests) for e in (a, b, c, d)] == [1, 1, 1, 1]
    assert [x["deployment"] for x in record["attempts"]] == ["a", "b", "d", "c"]


@pytest.mark.parametrize("allowed", [0, 1])
async def test_max_fallbacks_bounds_the_hops(allowed: int) -> None:
    a, b, c = (FakeEngine(n, status=500) for n in "abc")
    node = Node(
        {"chat": a, "two": b, "three": c},
        router={
            "fallbacks": [{"chat": ["two"]}, {"two": ["three"]}],
            "num_retries": 0,
            "max_fallbacks": allowed,
        },
    )

    async with gateway(node) as g:
        await g.client.ask("chat")

    assert [len(e.requests) for e in (a, b, c)] == [1, allowed, 0]


async def test_default_fallbacks_serve_names_without_an_entry() -> None:
    a, b = FakeEngine("a", status=500), FakeEngine("b")
    node = Node({"chat": a, "spare": b}, router={"default_fallbacks": ["spare"]})

    async with gateway(node) as g:
        got = await g.client.ask("chat")

    assert got.deployment == "b"
