"""Rescue: a stream that broke after content is carried on by a fallback, or ends with the error."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.engine import FakeEngine
from tests.engine_answers import Answer, Reset, Send, stream
from tests.engine_says import Say, delta
from tests.engine_wire import Received
from tests.harness import gateway
from tests.node import Node, member

WORDS = tuple(f"word{n} " for n in range(60))
ROUTES = pytest.mark.parametrize("dialect", ["chat", "completions", "messages"])


def broken_after(count: int, words: tuple[str, ...] = WORDS) -> Any:
    """A stream of any dialect that is cut after so many words."""

    def answer(received: Received) -> Answer:
        whole = Say(words=words)(received)
        last = words[count - 1].encode()
        at = next(n for n, s in enumerate(whole) if isinstance(s, Send) and last in s.data)
        return (*whole[: at + 1], Reset())

    return answer


def node(a: FakeEngine, b: FakeEngine, *, prefix: bool = False, ways: list[str]) -> Node:
    info = {"accepts_prefix": True} if prefix else {}
    return Node(
        {"chat": member(a), "spare": member(b, info)},
        router={"num_retries": 0, "fallbacks": [{"chat": ["spare"]}]},
        settings={"rescue": {"chat": ways}},
    )


@ROUTES
async def test_a_replay_passes_on_only_what_follows(dialect: str) -> None:
    """F8, F14: the spare says the same again; the client sees one whole answer."""
    a, b = FakeEngine("a", script=[broken_after(40)]), FakeEngine("b", otherwise=Say(words=WORDS))

    async with gateway(node(a, b, ways=["continue", "replay"])) as g:
        got = await g.client.ask("chat", dialect=dialect, stream=True)
        record = await g.record()

    assert got.text == "".join(WORDS)
    assert record["outcome"] == "ok"
    assert [(x["deployment"], x["outcome"]) for x in record["attempts"]] == [
        ("a", "broken"),
        ("b", "ok"),
    ]
    assert json.loads(b.requests[0].body) == {
        **json.loads(a.requests[0].body),
        "model": "b-model",
    }
    if dialect != "messages":
        chunks = [e.json for e in got.events if not e.done]
        assert len({c["model"] for c in chunks}) == 1
        assert len({c["id"] for c in chunks}) == 1


@pytest.mark.parametrize("dialect", ["chat", "messages"])
async def test_a_spare_that_takes_a_prefix_goes_on_from_there(dialect: str) -> None:
    rest = WORDS[40:]
    a, b = FakeEngine("a", script=[broken_after(40)]), FakeEngine("b", otherwise=Say(words=rest))

    async with gateway(node(a, b, prefix=True, ways=["continue", "replay"])) as g:
        got = await g.client.ask("chat", dialect=dialect, stream=True)

    sent = json.loads(b.requests[0].body)["messages"]
    assert got.text == "".join(WORDS)
    assert sent[-1] == {"role": "assistant", "content": "".join(WORDS[:40])}


@ROUTES
async def test_another_opening_is_no_rescue(dialect: str) -> None:
    other = ("something ", "else ", *WORDS)
    a, b = FakeEngine("a", script=[broken_after(40)]), FakeEngine("b", otherwise=Say(words=other))

    async with gateway(node(a, b, ways=["replay"])) as g:
        got = await g.client.ask("chat", dialect=dialect, stream=True)
        record = await g.record()

    assert got.text == "".join(WORDS[:40])
    assert got.error is not None
    assert record["outcome"] == "failed"
    assert [x["outcome"] for x in record["attempts"]] == ["broken", "broken"]


async def test_a_shorter_answer_is_no_rescue() -> None:
    a = FakeEngine("a", script=[broken_after(40)])
    b = FakeEngine("b", otherwise=Say(words=WORDS[:30]))

    async with gateway(node(a, b, ways=["replay"])) as g:
        got = await g.client.ask("chat", stream=True)

    assert got.text == "".join(WORDS[:40])
    assert got.error is not None


@pytest.mark.parametrize(
    "fields",
    [
        {"response_format": {"type": "json_object"}},
        {"guided_regex": "a+"},
        {"n": 2},
    ],
)
async def test_a_constrained_answer_is_never_carried_on(fields: dict[str, Any]) -> None:
    a, b = FakeEngine("a", script=[broken_after(5)]), FakeEngine("b", otherwise=Say(words=WORDS))

    async with gateway(node(a, b, ways=["replay"])) as g:
        got = await g.client.ask("chat", stream=True, **fields)

    assert got.error is not None
    assert b.requests == []


async def test_reasoning_is_never_carried_on() -> None:
    begun = stream([delta("", role="assistant"), delta(reasoning="let me "), delta("so ")])
    a = FakeEngine("a", script=[(*begun[:-1], Reset())])
    b = FakeEngine("b", otherwise=Say(words=WORDS))

    async with gateway(node(a, b, ways=["replay"])) as g:
        got = await g.client.ask("chat", stream=True)

    assert got.error is not None
    assert b.requests == []


async def test_what_the_spare_refuses_is_not_what_the_client_hears() -> None:
    """F14: the spare's 400 to a prefix would swap the true cause for a confusing one."""
    a = FakeEngine("a", script=[broken_after(40)])
    b = FakeEngine("b", status=400)

    async with gateway(node(a, b, prefix=True, ways=["continue"])) as g:
        got = await g.client.ask("chat", stream=True)

    assert got.error is not None
    assert got.error["code"] == "upstream_failed"
