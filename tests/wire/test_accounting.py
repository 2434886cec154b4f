"""One record for each request, with the tokens that the engine reported, or marked an estimate."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.client import PATHS, question
from tests.engine import FakeEngine
from tests.engine_answers import SILENT, Answer, Part, Pause, Reset, reply, stream
from tests.engine_says import DONE, Say, chat_events, delta, usage, usage_event
from tests.engine_wire import Received
from tests.harness import gateway
from tests.node import Node, member

STREAMED = pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
ROUTES = pytest.mark.parametrize("dialect", ["chat", "completions", "messages", "responses"])


def alone(*answers: Answer, **say: object) -> tuple[Node, FakeEngine]:
    engine = FakeEngine("e", script=answers, otherwise=Say(**say))  # type: ignore[arg-type]
    return Node({"chat": engine}, router={"num_retries": 0}), engine


@pytest.mark.parametrize("dialect", ["chat", "completions"])
@pytest.mark.parametrize("options", [None, {}, {"include_usage": False}, {"include_usage": True}])
async def test_usage_is_asked_of_the_engine_and_kept_from_who_did_not_ask(
    dialect: str, options: dict[str, bool] | None
) -> None:
    """ACC-05, ACC-02: the engine is asked always; the extra event goes only to who asked."""
    node, engine = alone()

    async with gateway(node) as g:
        got = await g.client.ask("chat", dialect=dialect, stream=True, stream_options=options)
        record = await g.record()

    wanted = bool(options and options.get("include_usage"))
    assert engine.bodies[0]["stream_options"]["include_usage"] is True
    assert any(e.data and '"usage"' in e.data for e in got.events) == wanted
    assert record["completion_tokens"] == 3
    assert got.done


async def test_other_stream_options_are_kept() -> None:
    node, engine = alone()
    options = {"continuous_usage_stats": False, "x": [1, {"y": None}]}

    async with gateway(node) as g:
        await g.client.ask("chat", stream=True, stream_options=options)

    assert engine.bodies[0]["stream_options"] == {**options, "include_usage": True}


async def test_usage_is_not_asked_for_without_a_stream() -> None:
    """VLLM answers 400 to stream_options without stream."""
    node, engine = alone()

    async with gateway(node) as g:
        await g.client.ask("chat")

    assert "stream_options" not in engine.bodies[0]


@pytest.mark.parametrize("dialect", ["chat", "completions"])
async def test_running_totals_are_not_summed(dialect: str) -> None:
    node, _ = alone(usage="running", tokens=(7, 3))

    async with gateway(node) as g:
        await g.client.ask("chat", dialect=dialect, stream=True)
        record = await g.record()

    assert (record["prompt_tokens"], record["completion_tokens"]) == (7, 3)


@ROUTES
async def test_a_stream_that_the_client_left_is_an_estimate(dialect: str) -> None:
    """ACC-01: the client leaves after 26 words: one record, about 26 tokens, estimated."""
    words = tuple(f"w{n} " for n in range(26))

    def answer(received: Received) -> Answer:
        whole = Say(words=words)(received)
        last = next(
            n
            for n in range(len(whole) - 1, 0, -1)
            if b"w25" in getattr(whole[n], "data", b"")
            and b"completed" not in getattr(whole[n], "data", b"")
        )
        return (*whole[: last + 1], *SILENT)

    engine = FakeEngine("e", otherwise=answer)

    async with gateway(Node({"chat": engine})) as g:
        body = question("chat", dialect, stream=True)
        async with g.client.open(PATHS[dialect], body) as opened:
            await opened.text(26)
            opened.leave()
            await engine.requests[0].peer_close()
        record = await g.record()

    assert record["outcome"] == "cancelled"
    assert record["estimated"] is True
    assert 24 <= record["completion_tokens"] <= 28
    assert record["prompt_tokens"] is None or record["prompt_tokens"] >= 1


async def test_an_estimate_takes_the_largest_running_total() -> None:
    events = chat_events(["a", "b", "c"])
    parts = [json_with_usage(e, usage(50, n * 10)) for n, e in enumerate(events[:4])]
    node, _ = alone((*stream(parts, end=False), Reset()))

    async with gateway(node) as g:
        await g.client.ask("chat", stream=True)
        record = await g.record()

    assert record["outcome"] == "failed"
    assert (record["prompt_tokens"], record["completion_tokens"]) == (50, 30)
    assert record["estimated"] is True


def json_with_usage(data: bytes, total: dict[str, object]) -> bytes:
    body = {**json.loads(data.removeprefix(b"data: ")), "usage": total}
    return b"data: %b\n\n" % json.dumps(body).encode()


@STREAMED
@pytest.mark.parametrize("details", ["given", "null", "absent"])
async def test_cached_and_reasoning_tokens_are_kept_and_null_details_do_no_harm(
    streamed: bool, details: str
) -> None:
    """ACC-07: the total prompt is neither reduced nor doubled."""
    forms: dict[str, dict[str, Any]] = {
        "given": {
            "prompt_tokens_details": {"cached_tokens": 149_900},
            "completion_tokens_details": {"reasoning_tokens": 40},
        },
        "null": {"prompt_tokens_details": None, "completion_tokens_details": None},
        "absent": {},
    }
    total = usage(150_000, 60, **forms[details])
    whole = {
        "id": "x",
        "object": "chat.completion",
        "model": "m",
        "usage": total,
        "choices": [
            {"index": 0, "message": {"role": "assistant", "content": "a"}, "finish_reason": "stop"}
        ],
    }
    streams = stream([*chat_events(["a"]), usage_event(total), DONE])
    node, _ = alone(streams if streamed else reply(whole))

    async with gateway(node) as g:
        await g.client.ask("chat", stream=streamed)
        record = await g.record()

    given = details == "given"
    assert record["prompt_tokens"] == 150_000
    assert record["cached_tokens"] == (149_900 if given else None)
    assert record["reasoning_tokens"] == (40 if given else None)
    assert record["completion_tokens"] == 60


async def test_messages_usage_counts_what_came_from_the_cache() -> None:
    """ACC-07: Anthropic's input_tokens leave out the cache; the record's prompt does not."""
    body = {
        "id": "m",
        "type": "message",
        "role": "assistant",
        "model": "m",
        "content": [],
        "stop_reason": "end_turn",
        "usage": {"input_tokens": 100, "cache_read_input_tokens": 900, "output_tokens": 5},
    }
    node, _ = alone(reply(body))

    async with gateway(node) as g:
        got = await g.client.ask("chat", dialect="messages")
        record = await g.record()

    assert got.json == body
    assert (record["prompt_tokens"], record["cached_tokens"]) == (1000, 900)


async def test_reasoning_above_completion_is_stored_as_given_with_a_note() -> None:
    total = usage(5, 10, completion_tokens_details={"reasoning_tokens": 40})
    node, _ = alone(stream([*chat_events(["a"]), usage_event(total), DONE]))

    async with gateway(node) as g:
        await g.client.ask("chat", stream=True)
        record = await g.record()

    assert (record["completion_tokens"], record["reasoning_tokens"]) == (10, 40)
    assert record["usage_note"]


async def test_the_first_token_is_the_first_content() -> None:
    """BEN-01, STR-17: the role chunk is none; reasoning is one."""
    parts: list[Part] = [delta("", role="assistant"), Pause(0.3), delta(reasoning="hm"), Pause(0.3)]
    node, _ = alone(stream([*parts, delta("a"), delta(finish="stop"), DONE]))

    async with gateway(node) as g:
        await g.client.ask("chat", stream=True)
        record = await g.record()

    assert 280 <= record["ttft_ms"] <= 550
    assert record["duration_ms"] >= 580


async def test_an_embedding_has_prompt_tokens_only() -> None:
    engine = FakeEngine("e")
    node = Node({"emb": member(engine, {"mode": "embedding", "apis": ["embeddings"]})})

    async with gateway(node) as g:
        await g.client.ask("emb", dialect="embeddings")
        record = await g.record()

    assert record["prompt_tokens"] == 7
    assert record["completion_tokens"] in (None, 0)
