"""The official clients and an agent on a real llama.cpp server that may speak chat alone.

The server itself would serve Messages and Responses; the file says `apis: [chat]`, so the bridge
translates both.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import anthropic
import openai
import pytest

from tests.bridge.conftest import Start
from tests.clients.claude import ANSWER, TOOL, ask, claude, whole_and_streamed
from tests.harness import Running
from tests.node import TESTER_KEY, Elsewhere, Node, member


@pytest.fixture
async def node(llama: Elsewhere, bridged: Start) -> AsyncIterator[Running]:
    """The gateway in front of llama.cpp, chat alone."""
    only = member(llama, {"engine": "llamacpp", "apis": ["chat"]}, model="hosted_vllm/scripted")
    async with bridged(Node({"chat": only})) as running:
        yield running


def gpt(node: Running) -> openai.AsyncOpenAI:
    return openai.AsyncOpenAI(base_url=node.client.base_url, api_key=TESTER_KEY, max_retries=0)


async def test_anthropic_whole_and_streamed(node: Running) -> None:
    records = await whole_and_streamed(node)

    assert [r["deployment"] for r in records] == ["llama", "llama"]


@pytest.mark.parametrize("streamed", [True, False])
async def test_anthropic_thinking(node: Running, streamed: bool) -> None:
    async with claude(node) as api:
        if streamed:
            async with api.messages.stream(**ask("think")) as stream:
                final = await stream.get_final_message()
        else:
            final = await api.messages.create(**ask("think"))

    kinds = [b.type for b in final.content]
    assert kinds == ["thinking", "text"]
    assert "think>" not in json.dumps(final.model_dump())


def city_of(block: Any) -> str:
    return str(block.input["city"])


def weather(city: str) -> str:
    return f"22 degrees in {city}"


async def test_an_agent_runs_its_tools_until_the_turn_ends(node: Running) -> None:
    """Over /v1/messages, streamed: call, result, answer."""
    messages: list[Any] = [{"role": "user", "content": "weather"}]
    turns: list[str] = []
    async with claude(node) as api:
        for _ in range(5):
            asked: Any = {"model": "chat", "max_tokens": 64, "messages": messages, "tools": [TOOL]}
            async with api.messages.stream(**asked) as stream:
                said = await stream.get_final_message()
            turns.append(str(said.stop_reason))
            if said.stop_reason != "tool_use":
                break
            messages.append({"role": "assistant", "content": said.content})
            results = [
                {
                    "type": "tool_result",
                    "tool_use_id": block.id,
                    "content": weather(city_of(block)),
                }
                for block in said.content
                if block.type == "tool_use"
            ]
            messages.append({"role": "user", "content": results})
        records = await node.records(len(turns))

    assert turns == ["tool_use", "end_turn"]
    assert messages[-1]["content"][0]["content"] == "22 degrees in Paris"
    assert all(r["outcome"] == "ok" for r in records)


async def test_several_tools_in_one_turn(node: Running) -> None:
    """As many calls as a chat client is given, each a block of its own."""
    function = {"name": TOOL["name"], "parameters": TOOL["input_schema"]}
    tools: Any = [{"type": "function", "function": function}]
    says: Any = [{"role": "user", "content": "two tools"}]
    async with gpt(node) as chat:
        plain = await chat.chat.completions.create(
            model="chat", messages=says, tools=tools, max_tokens=64, temperature=0
        )
    async with (
        claude(node) as api,
        api.messages.stream(
            **ask("two tools", tools=[TOOL], extra_body={"temperature": 0})
        ) as stream,
    ):
        final = await stream.get_final_message()

    calls = [b for b in final.content if b.type == "tool_use"]
    assert len(calls) == len(plain.choices[0].message.tool_calls or ()) > 1
    assert len({c.id for c in calls}) == len(calls)
    assert all(isinstance(c.input, dict) for c in calls)


async def test_responses_whole_and_streamed(node: Running) -> None:
    async with gpt(node) as api:
        whole = await api.responses.create(model="chat", input="hi", temperature=0)
        text, done, kinds = "", None, []
        async for event in await api.responses.create(
            model="chat", input="hi", stream=True, temperature=0
        ):
            kinds.append(event.type)
            if event.type == "response.output_text.delta":
                text += event.delta
            if event.type == "response.completed":
                done = event.response
        records = await node.records(2)

    assert whole.output_text == ANSWER
    assert text == ANSWER
    assert done is not None
    assert done.output_text == ANSWER
    assert kinds[:2] == ["response.created", "response.in_progress"]
    assert kinds[-1] == "response.completed"
    assert done.usage is not None
    assert records[1]["completion_tokens"] == done.usage.output_tokens


async def test_a_response_with_a_tool_call(node: Running) -> None:
    tool: Any = {
        "type": "function",
        "name": "get_weather",
        "parameters": TOOL["input_schema"],
        "strict": False,
    }
    async with gpt(node) as api:
        async with api.responses.stream(model="chat", input="weather", tools=[tool]) as stream:
            final = await stream.get_final_response()

    [call] = [item for item in final.output if item.type == "function_call"]
    assert call.name == "get_weather"
    assert json.loads(call.arguments) == {"city": "Paris"}


@pytest.mark.parametrize("dialect", ["messages", "responses"])
async def test_an_endless_answer_that_is_left_frees_the_engine(node: Running, dialect: str) -> None:
    """More often than the server has slots."""
    for _ in range(6):
        if dialect == "messages":
            async with claude(node) as api, api.messages.stream(**ask("loop", max_tokens=400)) as s:
                async for _event in s:
                    break
        else:
            async with gpt(node) as other:
                events = await other.responses.create(model="chat", input="loop", stream=True)
                async for _each in events:
                    break
                await events.close()
    async with claude(node) as api, asyncio.timeout(10):
        got = await api.messages.create(**ask("hi"))
    await node.idle()

    assert got.stop_reason == "end_turn"


async def test_errors_are_the_clients_own(node: Running) -> None:
    too_long = "word " * 3000
    async with claude(node) as api:
        with pytest.raises(anthropic.BadRequestError) as long:
            await api.messages.create(**ask(too_long))
        counted = await api.messages.count_tokens(
            model="chat", messages=[{"role": "user", "content": "hi"}]
        )
    async with gpt(node) as other:
        with pytest.raises(openai.BadRequestError):
            await other.responses.create(model="chat", input=too_long)

    assert "context" in str(long.value)
    assert counted.input_tokens > 0
