"""The `anthropic` client as both test suites ask with it, and what the scripted model answers."""

from __future__ import annotations

from typing import Any

import anthropic

from tests.harness import Running
from tests.node import TESTER_KEY

ANSWER = "Hello, this is a scripted answer."
TOOL: Any = {
    "name": "get_weather",
    "description": "Weather in a city",
    "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}},
}


def claude(node: Running, key: str = TESTER_KEY) -> anthropic.AsyncAnthropic:
    """A client of the gateway, which tries nothing twice."""
    base = node.client.base_url.removesuffix("/v1")
    return anthropic.AsyncAnthropic(base_url=base, api_key=key, max_retries=0)


def ask(text: str, **more: Any) -> dict[str, Any]:
    """A request with this text."""
    messages = [{"role": "user", "content": text}]
    return {"model": "chat", "max_tokens": 64, "messages": messages, **more}


async def whole_and_streamed(node: Running) -> list[dict[str, Any]]:
    """The same answer both ways, and the tokens of each in its record; gives the records."""
    async with claude(node) as api:
        whole = await api.messages.create(**ask("hi"))
        async with api.messages.stream(**ask("hi")) as stream:
            text = "".join([part async for part in stream.text_stream])
            final = await stream.get_final_message()
        records = await node.records(2)

    assert "".join(b.text for b in whole.content if b.type == "text") == ANSWER
    assert text == ANSWER
    assert (whole.stop_reason, final.stop_reason) == ("end_turn", "end_turn")
    assert [r["completion_tokens"] for r in records] == [
        whole.usage.output_tokens,
        final.usage.output_tokens,
    ]
    return records
