"""Embeddings and reranking pass as the engine and the client speak them."""

from __future__ import annotations

import base64
import json
import struct
from typing import Any

import pytest

from tests.captures import load
from tests.client import PATHS
from tests.engine import FakeEngine
from tests.engine_answers import SILENT, Answer, error, raw, reply
from tests.engine_says import Say
from tests.engine_wire import Received
from tests.harness import gateway
from tests.node import Node, member


def lane(engine: FakeEngine, **params: Any) -> Node:
    info = {"mode": "embedding", "apis": ["embeddings"]}
    return Node(
        {"emb": member(engine, info, **params), "chat": FakeEngine("chat")},
        tiers={"auxiliary": ["emb"]},
        router={"num_retries": 2},
    )


def vectors(received: Received) -> Answer:
    """Values that encode the text's number, in reverse order; base64 where it was asked for."""
    given = received.json["input"]
    texts = [given] if isinstance(given, str) else given
    encode = received.json.get("encoding_format") == "base64"
    data = [
        {"object": "embedding", "index": n, "embedding": _vector(n, encode)}
        for n in reversed(range(len(texts)))
    ]
    return reply(
        {
            "object": "list",
            "model": "emb",
            "data": data,
            "usage": {"prompt_tokens": len(texts), "total_tokens": len(texts)},
        }
    )


def _vector(number: int, encode: bool) -> Any:
    values = [float(number), 0.5]
    return base64.b64encode(struct.pack("<2f", *values)).decode() if encode else values


@pytest.mark.parametrize("form", [None, "float", "base64"])
async def test_the_format_is_the_clients(form: str | None) -> None:
    """EMB-01: none is added, none is changed, and the answer passes as it is."""
    engine = FakeEngine("e", otherwise=vectors)

    async with gateway(lane(engine)) as g:
        got = await g.client.ask(
            "emb", dialect="embeddings", input=["a", "b"], encoding_format=form
        )

    assert engine.bodies[0].get("encoding_format") == form
    assert [d["index"] for d in got.json["data"]] == [1, 0]
    assert isinstance(got.json["data"][0]["embedding"], str if form == "base64" else list)


async def test_an_engine_that_refuses_base64_says_so_itself() -> None:
    """EMB-01: answers 400 to it: passed on, one try."""
    engine = FakeEngine("e", otherwise=error(400, "encoding_format base64 is not supported"))

    async with gateway(lane(engine)) as g:
        got = await g.client.ask("emb", dialect="embeddings", encoding_format="base64")

    assert got.status == 400
    assert "base64" in got.json["error"]["message"]
    assert len(engine.requests) == 1


TOKENS: list[Any] = [[1, 2, 3], [[1, 2], [3]], [[100257]]]


@pytest.mark.parametrize("tokens", TOKENS)
async def test_token_numbers_reach_the_engine_unchanged(tokens: Any) -> None:
    """EMB-02: an engine that takes ids gets them."""
    engine = FakeEngine("e")

    async with gateway(lane(engine)) as g:
        got = await g.client.ask(
            "emb", dialect="embeddings", input=tokens, encoding_format="base64"
        )

    assert got.status == 200
    assert engine.bodies[0]["input"] == tokens


@pytest.mark.parametrize("tokens", TOKENS)
async def test_an_engine_that_takes_text_only_refuses_token_numbers_clearly(tokens: Any) -> None:
    """EMB-02: the engine's 4xx comes back once; never 500, never a fallback."""
    engine = FakeEngine("e", otherwise=reply({"detail": "input must be text"}, 422))

    async with gateway(lane(engine)) as g:
        got = await g.client.ask("emb", dialect="embeddings", input=tokens)

    assert got.status == 422
    assert "input must be text" in got.json["error"]["message"]
    assert len(engine.requests) == 1


async def test_one_input_that_never_ends_hurts_nobody_else() -> None:
    """EMB-07: 504, not sent again, and other requests go on."""

    def answer(received: Received) -> Answer:
        return SILENT if received.json["input"] == ["long"] else Say()(received)

    engine = FakeEngine("e", otherwise=answer)

    async with gateway(lane(engine, timeout=0.3)) as g:
        stuck = await g.client.ask("emb", dialect="embeddings", input=["long"])
        fine = await g.client.ask("emb", dialect="embeddings", input=["short"])
        await engine.requests[0].peer_close()

    assert (stuck.status, fine.status) == (504, 200)
    assert len(engine.requests) == 2


@pytest.mark.parametrize("given", ["one text", ["one text"], ["a", "b", ""]])
async def test_a_string_and_a_list_both_pass(given: Any) -> None:
    """EMB-09: one vector for a string; nothing is rewritten."""
    engine = FakeEngine("e", otherwise=vectors)

    async with gateway(lane(engine)) as g:
        got = await g.client.ask("emb", dialect="embeddings", input=given)

    assert engine.bodies[0]["input"] == given
    assert len(got.json["data"]) == (1 if isinstance(given, str) else len(given))


async def test_a_422_for_a_string_is_not_tried_again() -> None:
    """EMB-09: the documented 422."""
    engine = FakeEngine("e", otherwise=raw(load("infinity-emb-0.0.78/18c-no-input").raw))

    async with gateway(lane(engine)) as g:
        got = await g.client.ask("emb", dialect="embeddings", input="x")

    assert got.status == 422
    assert got.json["error"]["message"]
    assert len(engine.requests) == 1


async def test_a_500_for_a_text_that_is_too_long_is_the_clients_fault() -> None:
    """engines.md 4b: llama.cpp answers 500; not tried again, no count against its health."""
    said = error(
        500,
        "input (602 tokens) is too large to process. increase the physical batch "
        "size (current batch size: 512)",
    )
    engine = FakeEngine("e", script=[said] * 10)
    node = lane(engine)

    async with gateway(node) as g:
        replies = [await g.client.ask("emb", dialect="embeddings") for _ in range(10)]
        good = await g.client.ask("emb", dialect="embeddings")

    assert {r.status for r in replies} == {400}
    assert good.status == 200
    assert len(engine.requests) == 11


async def test_a_large_batch_passes_whole() -> None:
    engine = FakeEngine("e", otherwise=vectors)
    texts = [f"text {n}" for n in range(2000)]

    async with gateway(lane(engine)) as g:
        got = await g.client.ask("emb", dialect="embeddings", input=texts)

    assert engine.bodies[0]["input"] == texts
    assert len(got.json["data"]) == 2000


async def test_reranking_passes_as_the_engine_says_it() -> None:
    """SGLang answers a bare array, infinity and vLLM an object: both pass."""
    bare = json.dumps([{"index": 1, "score": 0.9}, {"index": 0, "score": 0.1}]).encode()
    engine = FakeEngine("e", script=[reply(bare)])

    async with gateway(Node({"rr": engine})) as g:
        first = await g.client.ask("rr", dialect="rerank")
        second = await g.client.ask("rr", dialect="rerank")

    assert first.body == bare
    assert second.json["results"][0]["index"] == 1
    assert engine.requests[0].path == PATHS["rerank"]


async def test_a_batch_of_texts_is_not_taken_for_one_long_text() -> None:
    """Each text has the window to itself: only the engine can tell whether one is too long."""
    engine = FakeEngine("e")
    info = {"mode": "embedding", "apis": ["embeddings"], "max_input_tokens": 100}

    async with gateway(Node({"emb": member(engine, info)})) as g:
        batch = await g.client.ask("emb", dialect="embeddings", input=["word " * 50] * 40)
        single = await g.client.ask("emb", dialect="embeddings", input="word " * 2000)

    assert batch.status == 200
    assert single.status == 400
    assert single.json["error"]["code"] == "context_length_exceeded"
