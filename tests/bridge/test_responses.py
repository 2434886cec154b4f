"""A Responses client on an engine that speaks chat alone: events in order, over real sockets."""

from __future__ import annotations

from typing import Any

import pytest

from tests.bridge.conftest import Start
from tests.bridge.test_messages import call, chat_only, says
from tests.client import Reply
from tests.engine import FakeEngine
from tests.engine_answers import error, stream
from tests.engine_says import delta, usage
from tests.node import Node


async def asked(bridged: Start, engine: FakeEngine, **more: Any) -> tuple[Reply, dict[str, Any]]:
    async with bridged(Node({"chat": chat_only(engine)})) as g:
        got = await g.client.ask("chat", dialect="responses", stream=True, **more)
        record = await g.record()
    return got, record


def named(got: Reply, name: str) -> list[Any]:
    return [e.json for e in got.events if e.name == name]


def items(got: Reply) -> list[tuple[str, str]]:
    """(type, text or call) of each item of the completed response."""
    [done] = named(got, "response.completed")
    found = []
    for item in done["response"]["output"]:
        text = "".join(part["text"] for part in item.get("content") or ())
        found.append((item["type"], text or f"{item.get('name')}{item.get('arguments')}"))
    return found


async def test_reasoning_text_and_two_calls_at_index_0(bridged: Start) -> None:
    """STR-14, STR-17: each an item of its own, with its own index, in the order they came."""
    engine = FakeEngine(
        otherwise=says(
            delta("", role="assistant"),
            delta(reasoning="Hm."),
            delta("Let me see."),
            delta(tool_calls=[call('{"a"', id="A", index=0, type="function", name="f")]),
            delta(tool_calls=[call(":1}", index=0)]),
            delta(tool_calls=[call("{}", id="B", index=0, type="function", name="g")]),
            delta(finish="tool_calls"),
            total=usage(
                prompt_tokens_details={"cached_tokens": 4},
                completion_tokens_details={"reasoning_tokens": 2},
            ),
        )
    )

    got, record = await asked(bridged, engine)

    assert items(got) == [
        ("reasoning", "Hm."),
        ("message", "Let me see."),
        ("function_call", 'f{"a":1}'),
        ("function_call", "g{}"),
    ]
    added = [e["output_index"] for e in named(got, "response.output_item.added")]
    assert added == [0, 1, 2, 3]
    numbers = [e.json["sequence_number"] for e in got.events if e.data and not e.done]
    assert numbers == list(range(len(numbers)))
    used = named(got, "response.completed")[0]["response"]["usage"]
    assert used["input_tokens_details"]["cached_tokens"] == 4
    assert used["output_tokens_details"]["reasoning_tokens"] == 2
    assert (record["cached_tokens"], record["reasoning_tokens"]) == (4, 2)
    assert record["outcome"] == "ok"


async def test_events_come_in_the_dialects_order(bridged: Start) -> None:
    got, _ = await asked(bridged, FakeEngine(otherwise=says(delta("Hi"), delta(finish="stop"))))

    assert [e.name for e in got.events if e.name] == [
        "response.created",
        "response.in_progress",
        "response.output_item.added",
        "response.content_part.added",
        "response.output_text.delta",
        "response.output_text.done",
        "response.content_part.done",
        "response.output_item.done",
        "response.completed",
    ]


async def test_an_answer_that_was_cut_short_by_its_limit_is_incomplete(bridged: Start) -> None:
    """STR-25: length."""
    engine = FakeEngine(otherwise=says(delta("Hi"), delta(finish="length")))

    got, record = await asked(bridged, engine)

    [done] = named(got, "response.incomplete")
    assert done["response"]["status"] == "incomplete"
    assert record["outcome"] == "ok"


async def test_a_stream_without_an_end_is_an_error_event(bridged: Start) -> None:
    """STR-01."""
    got, record = await asked(bridged, FakeEngine(otherwise=stream([delta("Hi")])))

    assert got.error is not None
    assert not named(got, "response.completed")
    assert record["outcome"] == "failed"


async def test_what_the_engine_is_asked(bridged: Start) -> None:
    engine = FakeEngine()
    history: list[Any] = [
        {"role": "user", "content": [{"type": "input_text", "text": "hi"}]},
        {"type": "function_call", "call_id": "A", "name": "f", "arguments": '{"a": 1}'},
        {"type": "function_call_output", "call_id": "A", "output": "42"},
    ]
    tools = [{"type": "function", "name": "f", "parameters": {"type": "object"}, "strict": False}]
    form = {"type": "json_schema", "name": "n", "schema": {"type": "object"}, "strict": True}

    async with bridged(Node({"chat": chat_only(engine)})) as g:
        await g.client.ask(
            "chat",
            dialect="responses",
            input=history,
            instructions="Be short.",
            tools=tools,
            text={"format": form},
            reasoning={"effort": "low"},
            max_output_tokens=9,
            top_k=5,
        )

    [sent] = engine.bodies
    assert [m["role"] for m in sent["messages"]] == ["system", "user", "assistant", "tool"]
    assert sent["messages"][2]["tool_calls"][0]["id"] == "A"
    assert sent["messages"][3]["content"] == "42"
    assert sent["tools"][0]["function"]["name"] == "f"
    assert sent["response_format"]["json_schema"]["name"] == "n"
    assert (sent["reasoning_effort"], sent["max_tokens"], sent["top_k"]) == ("low", 9, 5)


async def test_a_stored_response_is_not_the_bridges_to_know(bridged: Start) -> None:
    engine = FakeEngine()

    async with bridged(Node({"chat": chat_only(engine)})) as g:
        got = await g.client.ask("chat", dialect="responses", previous_response_id="resp_1")

    assert got.status == 400
    assert not engine.requests


@pytest.mark.parametrize("status", [400, 422])
async def test_the_clients_faults_come_back(bridged: Start, status: int) -> None:
    got, _ = await asked(bridged, FakeEngine(otherwise=error(status, "no good")))

    assert got.status == status
    assert "no good" in got.json["error"]["message"]
