"""What an engine that speaks chat alone is asked for an Anthropic client, and how it refuses."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests import markers
from tests.bridge.conftest import Start
from tests.bridge.test_messages import asked, chat_only
from tests.engine import FakeEngine
from tests.engine_answers import error
from tests.node import Node


async def test_what_the_engine_is_asked(bridged: Start) -> None:
    """System, images, thinking and tool results of the history, tools, sampling."""
    engine = FakeEngine()
    image = {"type": "base64", "media_type": "image/png", "data": "aGk="}
    messages = [
        {
            "role": "user",
            "content": [
                {"type": "image", "source": image},
                {"type": "text", "text": markers.prompt()},
            ],
        },
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "Hm.", "signature": "s"},
                {"type": "tool_use", "id": "A", "name": "f", "input": {"a": 1}},
            ],
        },
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "A", "content": "42"}]},
    ]
    tools = [
        {"name": "f", "description": "d", "input_schema": {"type": "object", "properties": {}}}
    ]
    asks: Any = {
        "tools": tools,
        "tool_choice": {"type": "any"},
        "stop_sequences": ["x"],
        "top_k": 5,
    }
    engine_fields: Any = {"chat_template_kwargs": {"enable_thinking": False}}

    async with bridged(Node({"chat": chat_only(engine)})) as g:
        await g.client.ask(
            "chat",
            dialect="messages",
            messages=messages,
            system="Be short.",
            **asks,
            **engine_fields,
        )

    [sent] = engine.bodies
    assert [m["role"] for m in sent["messages"]] == ["system", "user", "assistant", "tool"]
    assert sent["messages"][1]["content"][0]["image_url"]["url"] == "data:image/png;base64,aGk="
    assert sent["messages"][2]["reasoning_content"] == "Hm."
    assert json.loads(sent["messages"][2]["tool_calls"][0]["function"]["arguments"]) == {"a": 1}
    assert sent["messages"][3] == {"role": "tool", "tool_call_id": "A", "content": "42"}
    assert sent["tools"][0]["function"]["name"] == "f"
    assert (sent["tool_choice"], sent["stop"], sent["top_k"]) == ("required", ["x"], 5)
    assert sent["chat_template_kwargs"] == {"enable_thinking": False}
    assert sent["model"] == "engine-model"
    assert engine.requests[0].path == "/v1/chat/completions"


@pytest.mark.parametrize("status", [400, 404, 413, 422])
async def test_the_clients_faults_are_anthropics_errors(bridged: Start, status: int) -> None:
    engine = FakeEngine(otherwise=error(status, "no good"))

    got, record = await asked(bridged, engine)

    assert got.status == status
    assert got.json["type"] == "error"
    assert "no good" in got.json["error"]["message"]
    assert len(engine.requests) == 1
    assert record["outcome"] == "refused"


async def test_tokens_are_counted_for_an_engine_that_cannot(bridged: Start) -> None:
    engine = FakeEngine()

    async with bridged(Node({"chat": chat_only(engine)})) as g:
        got = await g.client.ask("chat", dialect="count_tokens")

    assert got.status == 200
    assert 5 < got.json["input_tokens"] < 30
    assert not engine.requests
