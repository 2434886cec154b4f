"""Retries: waits, limits, and what the books say of them."""

from __future__ import annotations

import asyncio

import pytest

from tests.client import PATHS, question
from tests.engine import FakeEngine
from tests.engine_answers import (
    SILENT,
    Pause,
    error,
    spaced,
    stream,
)
from tests.engine_says import Say
from tests.harness import gateway
from tests.node import Node, member

STREAMED = pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])


def pair(a: FakeEngine, b: FakeEngine, **router: object) -> Node:
    return Node(
        {"chat": member(a, timeout=0.3), "spare": b},
        router={"fallbacks": [{"chat": ["spare"]}], "num_retries": 0, **router},
    )


@STREAMED
async def test_a_short_retry_after_is_waited_out_on_the_same_engine(streamed: bool) -> None:
    """F1: throttled once and told when to come back: A answers the second time."""
    a, b = FakeEngine("a", script=[error(429, retry_after="1")]), FakeEngine("b")

    async with gateway(pair(a, b, num_retries=2)) as g:
        got = await g.client.ask("chat", stream=streamed)

    assert got.deployment == "a"
    assert len(a.requests) == 2
    assert a.requests[1].at - a.requests[0].at >= 0.95
    assert b.requests == []


@STREAMED
async def test_a_long_retry_after_is_not_waited_out(streamed: bool) -> None:
    a, b = FakeEngine("a", otherwise=error(429, retry_after="3600")), FakeEngine("b")

    async with gateway(pair(a, b, num_retries=2)) as g:
        first = await g.client.ask("chat", stream=streamed)
        second = await g.client.ask("chat", stream=streamed)

    assert (first.deployment, second.deployment) == ("b", "b")
    assert len(a.requests) == 1


@STREAMED
async def test_one_server_error_is_tried_again_on_the_same_engine(streamed: bool) -> None:
    """F3: a single 500; A's own reply comes back."""
    a, b = FakeEngine("a", script=[error(500)]), FakeEngine("b")

    async with gateway(pair(a, b, num_retries=2)) as g:
        got = await g.client.ask("chat", stream=streamed)

    assert got.deployment == "a"
    assert len(a.requests) == 2


@STREAMED
async def test_a_mute_engine_is_asked_once_and_sees_the_close(streamed: bool) -> None:
    """F6: never again after a timeout; the engine's connection is closed when it is given up."""
    a, b = FakeEngine("a", otherwise=SILENT), FakeEngine("b")

    async with gateway(pair(a, b, num_retries=2)) as g:
        got = await g.client.ask("chat", stream=streamed)
        closed_at = await a.requests[0].peer_close()

    assert got.deployment == "b"
    assert len(a.requests) == 1
    assert 0.25 < closed_at - a.requests[0].at < 0.6


async def test_a_head_without_words_is_given_up_at_the_first_content_limit() -> None:
    """F7: a 200 and its headers are no progress; keep-alive comments are none either."""
    a = FakeEngine("a", otherwise=(*stream(spaced([b": hi\n\n"] * 20, 0.1)), *SILENT))
    b = FakeEngine("b")
    node = Node(
        {"chat": member(a, timeout=30, stream_timeout=0.3), "spare": b},
        router={"fallbacks": [{"chat": ["spare"]}]},
    )

    async with gateway(node) as g:
        got = await g.client.ask("chat", stream=True, within_s=5)

    assert got.deployment == "b"
    assert got.text == "Hello from here"


@pytest.mark.parametrize("dialect", ["chat", "completions", "messages", "responses"])
async def test_the_timeout_of_one_model_is_not_that_of_another(dialect: str) -> None:
    """FBK-14: 0.3 s for one model, none for the other; the same on every route."""
    late = Say(before=(Pause(0.6),))
    a, b, spare = FakeEngine("a", otherwise=late), FakeEngine("b", otherwise=late), FakeEngine("s")
    node = Node(
        {"hasty": member(a, timeout=0.3), "patient": b, "spare": spare},
        router={"fallbacks": [{"hasty": ["spare"]}, {"patient": ["spare"]}]},
    )

    async with gateway(node) as g:
        asked = [
            g.client.ask(name, dialect=dialect, stream=s)
            for name in ("hasty", "patient")
            for s in (False, True)
        ]
        got = await asyncio.gather(*asked)

    assert [r.deployment for r in got] == ["s", "s", "b", "b"]


async def test_a_timeout_never_cuts_a_stream_that_delivers() -> None:
    a = FakeEngine("a", otherwise=Say(words=("x",) * 10, between=(Pause(0.06),)))
    node = Node({"chat": member(a, timeout=0.25)})

    async with gateway(node) as g:
        got = await g.client.ask("chat", stream=True)

    assert got.done
    assert got.text == "x" * 10


async def test_when_all_fail_the_client_sees_the_engines_own_error_in_bounded_time() -> None:
    """F4 without a spare; ACC-09: every attempt is recorded, with its reason and its time."""
    a, b = FakeEngine("a", otherwise=error(503, "A is full")), FakeEngine("b", status=500)
    node = pair(a, b)

    async with gateway(node) as g:
        got = await g.client.ask("chat")
        record = await g.record()

    assert got.status in (500, 503)
    assert record["outcome"] == "failed"
    assert [(x["deployment"], x["outcome"]) for x in record["attempts"]] == [
        ("a", "http-503"),
        ("b", "http-500"),
    ]
    assert all(x["ms"] >= 0 for x in record["attempts"])


async def test_the_record_after_a_switch_charges_the_one_that_served() -> None:
    """F16: the failed attempts cost nothing; the usage is B's."""
    a, b = FakeEngine("a", status=503), FakeEngine("b", otherwise=Say(model="B", tokens=(11, 4)))

    async with gateway(pair(a, b)) as g:
        got = await g.client.ask("chat", stream=True)
        record = await g.record()

    assert {e.json["model"] for e in got.events if not e.done} == {"B"}
    assert (record["prompt_tokens"], record["completion_tokens"]) == (11, 4)
    assert record["deployment"] == "b"


async def test_a_client_that_left_starts_no_further_attempt() -> None:
    """CAN-03: a request whose client is gone is not retried and does not fall back."""
    a, b = FakeEngine("a", otherwise=SILENT), FakeEngine("b")

    async with gateway(pair(a, b, num_retries=2)) as g:
        async with g.client.sending(PATHS["chat"], question("chat")) as opened:
            received = await a.arrived(1)
            left_at = opened.leave()
            closed_at = await received.peer_close()
        record = await g.record()
        await g.idle()

    assert closed_at - left_at < 0.1
    assert (len(a.requests), len(b.requests)) == (1, 0)
    assert record["outcome"] == "cancelled"
