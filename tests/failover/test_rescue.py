"""Rescue: what is carried on, and what the client and the record then hold."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.engine import FakeEngine
from tests.engine_answers import Reset, Send, chunk, error, stream
from tests.engine_says import DONE, delta, event
from tests.failover.carried import (
    BOTH_WAYS,
    SENT,
    breaks,
    carries_on,
    pair,
    refuses_a_prefix,
    whole,
)
from tests.failover.reply import WHOLE, finished, usage_of
from tests.harness import gateway

ROUTES = pytest.mark.parametrize("dialect", ["chat", "completions", "messages", "responses"])
# A Responses stream is only replayed.
WAYS = pytest.mark.parametrize(
    ("dialect", "way"),
    [(d, w) for d in ("chat", "completions", "messages") for w in BOTH_WAYS]
    + [("responses", "replay")],
)
PLAIN = {"accepts_prefix": False}


@WAYS
async def test_id_and_model_stay_the_first_ones_and_usage_is_the_seconds(
    dialect: str, way: str
) -> None:
    first = breaks()
    second = carries_on if way == "continue" else whole()
    node, a, b = pair(first, second, ways=[way])
    asks = {"stream_options": {"include_usage": True}} if dialect != "messages" else {}

    async with gateway(node) as g:
        got = await g.client.ask("chat", dialect=dialect, stream=True, **asks)
        record = await g.record()

    spoken = usage_of(got)
    assert got.text == WHOLE
    assert got.error is None
    assert got.done
    names = {n for e in got.events if e.data and not e.done for n in [model_in(e.json)] if n}
    assert names == {"a-model"}
    assert len(a.requests) == len(b.requests) == 1
    wanted = (51, 20) if way == "continue" else (11, 60)
    assert spoken is not None
    assert spoken[1] == wanted[1]
    assert (record["prompt_tokens"], record["completion_tokens"]) == wanted
    assert record["estimated"] is False
    assert record["outcome"] == "ok"
    assert record["deployment"] == "b"
    assert [(x["deployment"], x["outcome"]) for x in record["attempts"]] == [
        ("a", "broken"),
        ("b", "ok"),
    ]


def model_in(data: dict[str, Any]) -> str | None:
    """The model that an event names."""
    inner = data.get("message") or data.get("response") or {}
    return data.get("model") or inner.get("model")


async def test_there_is_one_opening_and_one_end() -> None:
    """The second answer's role chunk, or its message_start, is not the client's business."""
    for dialect, opening in (("chat", '"role"'), ("messages", "message_start")):
        node, *_ = pair(breaks(), carries_on)
        async with gateway(node) as g:
            got = await g.client.ask("chat", dialect=dialect, stream=True)

        assert (
            sum(
                opening in (e.data or "")
                for e in got.events
                if "content_block" not in (e.data or "")
            )
            == 1
        )
        assert sum(finished_event(e.json) for e in got.events if e.data and not e.done) == 1


def finished_event(data: dict[str, Any]) -> bool:
    """Whether an event holds a finish reason."""
    return any(c.get("finish_reason") for c in data.get("choices") or []) or (
        data.get("type") == "message_delta"
    )


@pytest.mark.parametrize(
    ("dialect", "field"),
    [
        ("chat", "max_tokens"),
        ("chat", "max_completion_tokens"),
        ("completions", "max_tokens"),
        ("messages", "max_tokens"),
    ],
)
@pytest.mark.parametrize(("limit", "left"), [(100, 60), (40, 1), (10, 1)])
async def test_who_goes_on_may_write_what_is_left_of_the_clients_limit(
    dialect: str, field: str, limit: int, left: int
) -> None:
    node, a, b = pair(breaks(), carries_on, ways=["continue"])

    async with gateway(node) as g:
        await g.client.ask("chat", dialect=dialect, stream=True, **{field: limit})

    assert a.bodies[0][field] == limit
    assert b.bodies[0][field] == left


async def test_an_answer_without_a_limit_goes_on_without_one_and_a_replay_keeps_it() -> None:
    node, _, b = pair(breaks(), carries_on, ways=["continue"])
    async with gateway(node) as g:
        await g.client.ask("chat", stream=True)
    again, _, c = pair(breaks(), whole(), ways=["replay"])
    async with gateway(again) as g:
        await g.client.ask("chat", stream=True, max_tokens=100)

    assert "max_tokens" not in b.bodies[0]
    assert c.bodies[0]["max_tokens"] == 100


@ROUTES
async def test_usage_that_the_client_did_not_ask_for_stays_with_the_gateway(dialect: str) -> None:
    node, *_ = pair(breaks(), carries_on)

    async with gateway(node) as g:
        got = await g.client.ask("chat", dialect=dialect, stream=True)
        record = await g.record()

    shown = [e for e in got.events if e.data and not e.done and e.json.get("choices") == []]
    assert shown == []
    assert record["completion_tokens"] == (60 if dialect == "responses" else 20)


@pytest.mark.parametrize(
    ("engine", "fields"),
    [
        ("vllm", {"continue_final_message": True, "add_generation_prompt": False}),
        ("sglang", {"continue_final_message": True}),
        ("llamacpp", {}),
    ],
)
async def test_the_engine_is_told_to_go_on_with_the_last_message(
    engine: str, fields: dict[str, bool]
) -> None:
    node, a, b = pair(breaks(), carries_on, info={"accepts_prefix": True, "engine": engine})

    async with gateway(node) as g:
        got = await g.client.ask("chat", stream=True, temperature=0)

    asked, first = b.bodies[0], a.bodies[0]
    assert got.text == WHOLE
    assert asked["messages"] == [*first["messages"], {"role": "assistant", "content": SENT}]
    assert {k: v for k, v in asked.items() if k not in ("messages", "model")} == {
        **{k: v for k, v in first.items() if k not in ("messages", "model")},
        **fields,
    }


@ROUTES
async def test_a_spare_cuts_its_words_where_it_likes(dialect: str) -> None:
    """Replay compares characters, not events: the seam may lie inside one."""
    for size in (1, 3, 7, 1000):
        cut = tuple(WHOLE[n : n + size] for n in range(0, len(WHOLE), size))
        node, *_ = pair(breaks(), whole(cut), info=PLAIN)
        async with gateway(node) as g:
            got = await g.client.ask("chat", dialect=dialect, stream=True)

        assert got.text == WHOLE, size


async def test_the_seam_may_lie_between_characters_of_many_bytes() -> None:
    words = ("Grüße ", "aus ", "東京 ", "👍🏽 ", "und ", "Zürich")
    begun = stream([delta("", role="assistant"), *(delta(w) for w in words[:4])])
    other = ("Grüße aus 東", "京 👍🏽 u", "nd Zürich")
    node, *_ = pair((*begun[:-1], Reset()), whole(other), info=PLAIN)

    async with gateway(node) as g:
        got = await g.client.ask("chat", stream=True)

    assert got.text == "".join(words)
    assert got.done


@WAYS
async def test_all_was_said_and_only_the_end_is_missing(dialect: str, way: str) -> None:
    node, *_ = pair(breaks(words=60), carries_on, ways=[way])

    async with gateway(node) as g:
        got = await g.client.ask("chat", dialect=dialect, stream=True)

    assert got.text == WHOLE
    assert got.error is None
    assert finished(got)


@ROUTES
async def test_an_error_event_after_content_is_carried_on_too(dialect: str) -> None:
    """Engines.md 3: EngineCore dies, says so, and sends [DONE]."""
    inner = {"message": "EngineCore encountered an issue", "type": "server_error", "code": 500}
    says = event({"type": "error", "error": inner}, "error" if dialect == "messages" else None)
    node, *_ = pair(breaks(Send(chunk(says)), Send(chunk(DONE)), Send(b"0\r\n\r\n")), carries_on)

    async with gateway(node) as g:
        got = await g.client.ask("chat", dialect=dialect, stream=True)

    assert got.text == WHOLE
    assert got.error is None


async def test_a_refused_prefix_is_followed_by_a_replay() -> None:
    """F14 with a flag in the file that is wrong: B said 400 to the prefix."""
    node, _, b = pair(breaks(), refuses_a_prefix)

    async with gateway(node) as g:
        got = await g.client.ask("chat", stream=True)
        record = await g.record()

    assert got.text == WHOLE
    assert got.done
    assert len(b.requests) == 2
    assert [x["outcome"] for x in record["attempts"]] == ["broken", "http-400", "ok"]


async def test_the_next_spare_is_asked_when_the_first_cannot() -> None:
    c = FakeEngine("c", otherwise=whole())
    node, _, b = pair(breaks(), error(503), c, info=PLAIN)

    async with gateway(node) as g:
        got = await g.client.ask("chat", stream=True)

    assert got.text == WHOLE
    assert got.done
    assert len(c.requests) == 1
    assert b.requests


async def test_a_client_may_send_a_beginning_of_its_own() -> None:
    """A conversation that ends on an assistant message goes on in that message."""
    words = [{"role": "user", "content": "go on"}, {"role": "assistant", "content": "Well, "}]
    node, _, b = pair(breaks(), carries_on, ways=["continue"])

    async with gateway(node) as g:
        got = await g.client.ask("chat", stream=True, messages=words)

    assert got.text == WHOLE
    assert b.bodies[0]["messages"] == [words[0], {"role": "assistant", "content": f"Well, {SENT}"}]


async def test_a_rescue_is_no_second_record_and_counts_once() -> None:
    node, *_ = pair(breaks(), carries_on)

    async with gateway(node) as g:
        await g.client.ask("chat", stream=True)
        record = (await g.records(1))[0]
        metrics = await g.metrics()

    assert json.dumps(record["attempts"]).count('"deployment"') == 2
    assert 'outcome="ok"' in metrics
