"""What an engine's answer means: the client's fault, the operator's, the engine's, or none."""

from __future__ import annotations

import time

import pytest

from tests.captures import load
from tests.clock import Clock
from tests.engine import FakeEngine
from tests.engine_answers import Answer, error, raw, reply
from tests.engine_says import Say
from tests.harness import gateway
from tests.node import Node

STREAMED = pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])


def wording(message: str, status: int = 400, **more: object) -> Answer:
    return reply({"error": {"message": message, "type": "invalid", "code": status, **more}}, status)


# FBK-07: how engines say that the prompt is too long; captured where an engine was recorded.
OVERFLOWS: dict[str, Answer] = {
    "vLLM, tokens": wording(
        "This model's maximum context length is 512 tokens. However, your request has 600 input "
        "tokens. Please reduce the length of the input messages."
    ),
    "vLLM, captured": raw(load("vllm-0.32.0-chat/30-ctx-overflow").raw),
    "vLLM, completions": raw(load("vllm-0.32.0-chat/54-completions-overflow").raw),
    "SGLang, captured": raw(load("sglang-0.5.23-chat/30-ctx-overflow").raw),
    "SGLang, flat": reply(
        {
            "object": "error",
            "message": "The input (2215 tokens) is longer than the model's context length "
            "(1024 tokens).",
            "type": "BadRequestError",
            "param": None,
            "code": 400,
        },
        400,
    ),
    "llama.cpp, captured": raw(load("llamacpp/30-ctx-overflow").raw),
    "llama.cpp, embeddings": wording(
        "input (602 tokens) is too large to process. increase the physical batch size "
        "(current batch size: 512)",
        500,
    ),
    "Ollama": reply({"error": "the input length exceeds the context length"}, 400),
    "OpenAI, code": wording("too big", code="context_length_exceeded"),
    "TEI": reply(
        {
            "error": "Input validation error: `inputs` must have less than 512 tokens. Given: 600",
            "error_type": "Validation",
        },
        413,
    ),
    "a 500 that is one (FBK-09)": wording(
        "prompt is too long: 9000 tokens > 4096 maximum context length", 500
    ),
}


@pytest.mark.parametrize("shape", OVERFLOWS)
@STREAMED
async def test_an_overflow_goes_to_the_larger_model(shape: str, streamed: bool) -> None:
    """FBK-07, F12: recognised in every wording; the ordinary fallback is not used."""
    small, large, spare = (
        FakeEngine("small", otherwise=OVERFLOWS[shape]),
        FakeEngine("large"),
        FakeEngine("spare"),
    )
    node = Node(
        {"chat": small, "large": large, "spare": spare},
        router={
            "fallbacks": [{"chat": ["spare"]}],
            "context_window_fallbacks": [{"chat": ["large"]}],
            "num_retries": 2,
        },
    )

    async with gateway(node) as g:
        got = await g.client.ask("chat", stream=streamed)

    assert got.deployment == "large"
    assert (len(small.requests), len(spare.requests)) == (1, 0)


@pytest.mark.parametrize("shape", OVERFLOWS)
@pytest.mark.parametrize("dialect", ["chat", "messages"])
async def test_an_overflow_with_nowhere_to_go_is_the_clients_400(
    shape: str, dialect: str, clock: Clock
) -> None:
    """FBK-07, FBK-09: one try, 400, and the engine stays in service."""
    small, spare = FakeEngine("small", otherwise=OVERFLOWS[shape]), FakeEngine("spare")
    node = Node(
        {"chat": small, "spare": spare},
        router={"fallbacks": [{"chat": ["spare"]}], "allowed_fails": 0, "cooldown_time": 60},
    )

    async with gateway(node, clock=clock) as g:
        replies = [await g.client.ask("chat", dialect=dialect) for _ in range(20)]
        small.otherwise = Say()
        good = await g.client.ask("chat", dialect=dialect)

    assert {r.status for r in replies} == {400}
    assert len(small.requests) == 21
    assert spare.requests == []
    assert good.status == 200
    assert good.deployment == "small"


@pytest.mark.parametrize("status", [400, 403, 404, 405, 413, 415, 422])
@STREAMED
@pytest.mark.parametrize("dialect", ["chat", "messages"])
async def test_the_clients_fault_goes_back_as_the_engine_said_it(
    status: int, streamed: bool, dialect: str
) -> None:
    """FBK-10, BIG-03, ERR-01: one attempt, status and message reach the client; no cooldown."""
    said = error(status, "min_p must be below 1", kind="BadRequestError")
    a, b = FakeEngine("a", otherwise=said), FakeEngine("b")
    node = Node(
        {"chat": a, "spare": b},
        router={"fallbacks": [{"chat": ["spare"]}], "num_retries": 3, "allowed_fails": 0},
    )

    async with gateway(node) as g:
        got = await g.client.ask("chat", stream=streamed, dialect=dialect)
        again = await g.client.ask("chat", stream=streamed, dialect=dialect)
        records = await g.records(2)

    assert (got.status, again.status) == (status, status)
    assert "min_p must be below 1" in str(got.json["error"]["message"])
    assert (len(a.requests), len(b.requests)) == (2, 0)
    assert got.body != b""
    assert {r["outcome"] for r in records} <= {"refused", "failed"}


@STREAMED
async def test_a_refusal_on_content_grounds_is_final(streamed: bool) -> None:
    """F13: exactly one try; code and message intact."""
    body = {
        "error": {
            "message": "The response was filtered",
            "type": "invalid_request_error",
            "param": None,
            "code": "content_policy_violation",
        }
    }
    a, b = FakeEngine("a", otherwise=reply(body, 400)), FakeEngine("b")
    node = Node({"chat": a, "spare": b}, router={"fallbacks": [{"chat": ["spare"]}]})

    async with gateway(node) as g:
        got = await g.client.ask("chat", stream=streamed)

    assert got.status == 400
    assert got.json == body
    assert (len(a.requests), len(b.requests)) == (1, 0)


@pytest.mark.parametrize("status", [401, 301, 302, 307, 308])
@STREAMED
async def test_the_operators_fault_moves_on_without_a_cooldown(status: int, streamed: bool) -> None:
    """A refused gateway key, or a redirect: next candidate; redirects are never followed."""
    trap = FakeEngine("trap")
    async with trap:
        said = reply({"error": "Unauthorized"}, status, [("location", trap.url + "/x")])
        a, b = FakeEngine("a", otherwise=said), FakeEngine("b")
        node = Node(
            {"chat": a, "spare": b},
            router={"fallbacks": [{"chat": ["spare"]}], "allowed_fails": 0, "cooldown_time": 60},
        )
        async with gateway(node) as g:
            replies = [await g.client.ask("chat", stream=streamed) for _ in range(3)]

    assert [r.deployment for r in replies] == ["b"] * 3
    assert len(a.requests) == 3
    assert trap.requests == []


@pytest.mark.parametrize("status", [401, 307])
@pytest.mark.parametrize("dialect", ["chat", "messages", "embeddings"])
async def test_the_operators_fault_alone_is_502(status: int, dialect: str) -> None:
    said = reply({"error": "Unauthorized"}, status, [("location", "http://elsewhere.test/x")])
    a = FakeEngine("a", otherwise=said)

    async with gateway(Node({"chat": a})) as g:
        got = await g.client.ask("chat", dialect=dialect)

    assert got.status == 502
    assert got.error is not None
    assert got.error["code"] == "upstream_misconfigured"
    assert (got.json.get("type") == "error") == (dialect == "messages")
    assert b"elsewhere" not in got.body


async def test_loading_is_not_a_failure() -> None:
    """CDN-03: 503 while loading rests the engine briefly; the first request after it is served."""
    engine = FakeEngine("e", phase="loading")
    node = Node(
        {"chat": engine}, router={"allowed_fails": 0, "cooldown_time": 60, "num_retries": 0}
    )

    async with gateway(node) as g:
        while_loading = await g.client.ask("chat")
        await engine.become("ready")
        began = time.perf_counter()
        while (got := await g.client.ask("chat")).status != 200:
            assert time.perf_counter() - began < 5
            assert got.status in (429, 503)

    assert while_loading.status == 503
    assert int(while_loading.headers.get("retry-after", "1")) >= 1
