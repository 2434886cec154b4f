"""Providers through the bridge: dialects, errors, cancel, permits, records, over real sockets."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.bridge.conftest import Start
from tests.engine import FakeEngine
from tests.engine_answers import Answer, reply, stream
from tests.engine_says import DONE, Say, delta, usage, usage_event
from tests.engine_wire import Received
from tests.node import Member, Node, member

# One provider for each way: OpenAI's wire, Anthropic's translated, and the library's own clients.
WAYS = ["nebius/some/model", "anthropic/claude-x", "groq/llama-x"]
EVERY_WAY = pytest.mark.parametrize("model", WAYS)


def provider(engine: FakeEngine, model: str, **params: Any) -> Member:
    return member(engine, {"apis": None}, **{"model": model, **params})


def speaks(model: str, say: Say | None = None) -> FakeEngine:
    return FakeEngine("p", otherwise=say or Say(usage="asked"))


@EVERY_WAY
@pytest.mark.parametrize("asks", [True, False])
async def test_a_chat_stream(bridged: Start, model: str, asks: bool) -> None:
    engine = speaks(model)
    options: Any = {"stream_options": {"include_usage": True}} if asks else {}

    async with bridged(Node({"chat": provider(engine, model)})) as g:
        got = await g.client.ask("chat", stream=True, **options)
        record = await g.record()

    assert got.text == "Hello from here"
    assert got.events[-1].done
    assert any(e.json.get("usage") for e in got.events if not e.done) is asks
    assert (record["outcome"], record["stream"], record["status"]) == ("ok", True, 200)
    assert (record["prompt_tokens"], record["completion_tokens"]) == (7, 3)
    assert record["estimated"] is False
    assert record["attempts"][0]["outcome"] == "ok"
    assert record["ttft_ms"] is not None


@EVERY_WAY
async def test_a_whole_chat_answer(bridged: Start, model: str) -> None:
    engine = speaks(model)
    if "groq" in model:  # the library wants the tier that Groq always names

        def with_tier(received: Received) -> Answer:
            choice = {
                "index": 0,
                "message": {"role": "assistant", "content": "Hello from here"},
                "finish_reason": "stop",
            }
            body = {"id": "c", "object": "chat.completion", "created": 1, "service_tier": "x"}
            return reply({**body, "model": "m", "choices": [choice], "usage": usage()})

        engine.otherwise = with_tier

    async with bridged(Node({"chat": provider(engine, model)})) as g:
        got = await g.client.ask("chat", max_tokens=50)
        record = await g.record()

    assert got.status == 200
    assert got.json["choices"][0]["message"]["content"] == "Hello from here"
    assert got.json["choices"][0]["finish_reason"] == "stop"
    assert got.json["usage"]["total_tokens"] == 10
    assert (record["prompt_tokens"], record["completion_tokens"]) == (7, 3)
    assert engine.bodies[0]["model"] == model.partition("/")[2]


@pytest.mark.parametrize(
    ("dialect", "model"),
    [
        ("completions", "text-completion-openai/x"),
        ("embeddings", "nebius/emb"),
        ("rerank", "hosted_vllm/reranker"),
        ("messages", "anthropic/claude-x"),
        ("count_tokens", "anthropic/claude-x"),
        ("responses", "hosted_vllm/x"),
        ("responses", "openai/some-model"),
        ("responses", "nebius/some/model"),
        ("messages", "nebius/some/model"),
        ("count_tokens", "nebius/some/model"),
    ],
)
async def test_every_other_dialect(bridged: Start, dialect: str, model: str) -> None:
    engine = speaks(model)
    mode = {"embeddings": "embedding", "rerank": "rerank"}.get(dialect, "chat")
    apis = {"rerank": ["embeddings"]}.get(dialect)
    if model.startswith(("hosted_vllm/x", "text-", "openai/")):
        apis = ["chat"]
    info: dict[str, Any] = {"apis": apis, "mode": mode}
    node = Node({"chat": member(engine, info, model=model)})

    async with bridged(node) as g:
        got = await g.client.ask("chat", dialect=dialect)
        record = await g.record()

    assert got.status == 200, got.body
    assert record["outcome"] == "ok"
    assert record["dialect"] == dialect
    if dialect == "embeddings":
        assert got.json["data"][0]["embedding"] == [0.0, 17.0]
    if dialect == "rerank":
        assert [r["index"] for r in got.json["results"]] == [1, 0]
    if dialect == "completions":
        assert got.json["choices"][0]["text"] == "Hello from here"
    if dialect == "count_tokens":
        assert (got.json == {"input_tokens": 7}) is ("anthropic" in model)
    if dialect == "messages":
        assert got.json["content"][0]["text"] == "Hello from here"


@pytest.mark.parametrize(
    ("dialect", "model"),
    [
        ("completions", "text-completion-openai/x"),
        ("messages", "anthropic/claude-x"),
        ("messages", "nebius/some/model"),
        ("messages", "groq/x"),
        ("responses", "hosted_vllm/x"),
        ("responses", "azure_ai/some-model"),
        ("responses", "anthropic/claude-x"),
        ("responses", "groq/x"),
    ],
)
async def test_streams_of_other_dialects(bridged: Start, dialect: str, model: str) -> None:
    engine = speaks(model)
    apis = ["chat"] if model.startswith(("hosted", "text")) else None
    node = Node({"chat": member(engine, {"apis": apis}, model=model)})

    async with bridged(node) as g:
        got = await g.client.ask("chat", dialect=dialect, stream=True)
        record = await g.record()

    assert got.text == "Hello from here"
    assert record["outcome"] == "ok"
    assert (record["prompt_tokens"], record["completion_tokens"]) == (7, 3)


async def test_a_providers_own_words_pass_unchanged(bridged: Start) -> None:
    """OpenAI's wire: fields that nobody knows, in the answer, arrive as they were said."""
    odd = delta("Hi", finish="stop", x_unknown={"a": [1.0, None]})
    engine = FakeEngine("p", otherwise=stream([odd, usage_event(usage()), DONE]))

    async with bridged(Node({"chat": provider(engine, "nebius/some/model")})) as g:
        got = await g.client.ask("chat", stream=True)

    assert got.events[0].raw == odd


@pytest.mark.parametrize("model", ["nebius/some/model", "openai/some-model", "together_ai/x"])
async def test_engine_fields_arrive_where_they_were_sent(bridged: Start, model: str) -> None:
    """PRM-01: with drop_params on, each field at the same place with the same value."""
    fields: dict[str, Any] = {
        "chat_template_kwargs": {"enable_thinking": False},
        "top_k": 5,
        "min_p": 0.1,
        "grammar": "root ::= x",
        "priority": 3,
        "stop_token_ids": [1, 2],
        "return_token_ids": True,
        "response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": {}}},
    }
    engine = FakeEngine("p")

    async with bridged(Node({"chat": provider(engine, model, drop_params=True)})) as g:
        got = await g.client.ask("chat", **fields)

    assert got.status == 200
    assert {k: engine.bodies[0].get(k) for k in fields} == fields


async def test_the_files_fields_hold_on_a_bridged_deployment(bridged: Start) -> None:
    """Defaults yield to the client, extra_body wins, dropped names never leave."""
    engine = FakeEngine("p")
    chat = provider(
        engine,
        "nebius/some/model",
        temperature=0.5,
        top_k=7,
        extra_body={"chat_template_kwargs": {"enable_thinking": False}, "own_field": 1},
        additional_drop_params=["seed"],
    )
    asks: dict[str, Any] = {
        "temperature": 0.1,
        "seed": 4,
        "chat_template_kwargs": {"enable_thinking": True, "x": 1},
    }

    async with bridged(Node({"chat": chat})) as g:
        await g.client.ask("chat", **asks)

    [sent] = engine.bodies
    assert (sent["temperature"], sent["top_k"], sent["own_field"]) == (0.1, 7, 1)
    assert "seed" not in sent
    assert sent["chat_template_kwargs"] == {"enable_thinking": False, "x": 1}


async def test_headers_go_up_by_the_same_list(bridged: Start) -> None:
    engine = FakeEngine("p")
    headers = {"traceparent": "00-a-b-01", "x-api-base": "http://evil", "cookie": "a=b"}

    async with bridged(Node({"chat": provider(engine, "nebius/some/model")})) as g:
        await g.client.ask("chat", headers=headers)

    names = {name for name, _ in engine.requests[0].headers}
    assert "traceparent" in names
    assert not names & {"cookie", "x-api-base", "x-litellm-tags"}
    assert json.loads(engine.requests[0].body)["model"] == "some/model"
