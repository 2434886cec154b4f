"""One record for each request, whole, once."""

from __future__ import annotations

import asyncio

import pytest

from tests.engine import FakeEngine
from tests.engine_answers import Answer
from tests.engine_says import Say
from tests.harness import gateway
from tests.node import Node

STREAMED = pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])


ROUTES = pytest.mark.parametrize("dialect", ["chat", "completions", "messages", "responses"])


def alone(*answers: Answer, **say: object) -> tuple[Node, FakeEngine]:
    engine = FakeEngine("e", script=answers, otherwise=Say(**say))  # type: ignore[arg-type]
    return Node({"chat": engine}, router={"num_retries": 0}), engine


FIELDS = {
    "id",
    "at",
    "client",
    "client_ip",
    "app",
    "dialect",
    "requested_model",
    "task",
    "tier",
    "group",
    "deployment",
    "upstream",
    "attempts",
    "stream",
    "status",
    "outcome",
    "queue_ms",
    "ttft_ms",
    "duration_ms",
    "prompt_tokens",
    "cached_tokens",
    "completion_tokens",
    "reasoning_tokens",
    "tok_s",
    "estimated",
    "usage_note",
    "config",
}


@ROUTES
@STREAMED
async def test_a_record_holds_the_engines_tokens(dialect: str, streamed: bool) -> None:
    """ACC-02, ACC-05: one record; tokens equal the engine's, asked for by the client or not."""
    node, engine = alone(tokens=(21, 13))

    async with gateway(node) as g:
        got = await g.client.ask("chat", dialect=dialect, stream=streamed)
        record = await g.record()

    assert set(record) >= FIELDS - {"usage_note"}
    assert (record["prompt_tokens"], record["completion_tokens"]) == (21, 13)
    assert record["estimated"] is False
    assert record["id"] == got.headers["x-gateway-request-id"]
    assert record["config"] == got.headers["x-gateway-config"]
    assert (record["client"], record["client_ip"]) == ("tester", "127.0.0.1")
    assert (record["dialect"], record["stream"]) == (dialect, streamed)
    assert record["upstream"] == f"127.0.0.1:{engine.port}"
    assert (record["outcome"], record["status"]) == ("ok", 200)
    assert record["duration_ms"] >= record["ttft_ms"] >= 0 if streamed else True
    assert [a["outcome"] for a in record["attempts"]] == ["ok"]


async def test_a_refused_request_has_a_record_and_one_without_a_key_has_none() -> None:
    node, _ = alone()

    async with gateway(node) as g:
        await g.client.ask("chat", key="sk-wrong")
        await g.client.ask("nope")
        record = await g.record()

    assert (record["outcome"], record["status"]) == ("refused", 404)


async def test_records_never_double_under_a_crowd() -> None:
    """ACC-02: 300 at once, of every kind: 300 records, each id once."""
    node, engine = alone()
    engine.script = [Say(usage="never")] * 50

    async with gateway(node) as g:
        await asyncio.gather(*(g.client.ask("chat", stream=n % 2 == 0) for n in range(300)))
        records = await g.records(300)

    assert len({r["id"] for r in records}) == 300


async def test_client_text_in_a_record_is_cut_and_printable() -> None:
    node, _ = alone()
    headers = {"X-Client": "tool\x85\xa0" + "x" * 200, "User-Agent": "agent/1"}

    async with gateway(node) as g:
        await g.client.ask("chat", headers=headers)
        await g.client.ask("chat", headers={"User-Agent": "agent/1"})
        records = await g.records(2)

    assert len(records[0]["app"]) <= 64
    assert records[0]["app"].isprintable()
    assert records[1]["app"] == "agent/1"
