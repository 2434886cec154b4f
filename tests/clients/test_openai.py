"""The official `openai` client: whole, streamed, tools, reasoning, embeddings, errors, cancel."""

from __future__ import annotations

import asyncio
from typing import Any

import openai
import pytest

from tests import markers
from tests.harness import Running
from tests.node import TESTER_KEY

TOOLS: Any = [
    {
        "type": "function",
        "function": {
            "name": "get_weather",
            "description": "Weather in a city",
            "parameters": {
                "type": "object",
                "properties": {"city": {"type": "string"}},
                "required": ["city"],
            },
        },
    }
]


def client(node: Running, **more: Any) -> openai.AsyncOpenAI:
    settings = {"base_url": node.client.base_url, "api_key": TESTER_KEY, "max_retries": 0}
    return openai.AsyncOpenAI(**{**settings, **more})


def says(text: str) -> Any:
    return [{"role": "system", "content": markers.prompt()}, {"role": "user", "content": text}]


@pytest.mark.parametrize("model", ["chat", "gpt-4o"])
async def test_a_whole_answer(node: Running, model: str) -> None:
    async with client(node) as api:
        got = await api.chat.completions.create(model=model, messages=says("hi"), temperature=0)
        record = await node.record()

    assert got.choices[0].message.content == "Hello, this is a scripted answer."
    assert got.choices[0].finish_reason == "stop"
    assert got.usage is not None
    assert record["completion_tokens"] == got.usage.completion_tokens
    assert record["prompt_tokens"] == got.usage.prompt_tokens


@pytest.mark.parametrize("asks", [True, False])
async def test_a_streamed_answer(node: Running, asks: bool) -> None:
    options: Any = {"stream_options": {"include_usage": True}} if asks else {}
    async with client(node) as api:
        text, usage, reasons = "", None, []
        async for chunk in await api.chat.completions.create(
            model="chat", messages=says("hi"), stream=True, temperature=0, **options
        ):
            usage = usage or chunk.usage
            for choice in chunk.choices:
                text += choice.delta.content or ""
                reasons += [choice.finish_reason] if choice.finish_reason else []
        record = await node.record()

    assert text == "Hello, this is a scripted answer."
    assert reasons == ["stop"]
    assert (usage is not None) == asks
    assert record["completion_tokens"] > 0
    assert record["estimated"] is False


@pytest.mark.parametrize("word", ["emoji", "code", "json", "count"])
async def test_text_is_the_same_streamed_and_whole(node: Running, word: str) -> None:
    """STR-10: 4-byte characters over four tokens, quotes, newlines."""
    async with client(node) as api:
        whole = await api.chat.completions.create(model="chat", messages=says(word), temperature=0)
        text = ""
        async for chunk in await api.chat.completions.create(
            model="chat", messages=says(word), stream=True, temperature=0
        ):
            text += chunk.choices[0].delta.content or "" if chunk.choices else ""

    assert text == whole.choices[0].message.content
    assert "\ufffd" not in text


@pytest.mark.parametrize("streamed", [False, True])
async def test_a_tool_call(node: Running, streamed: bool) -> None:
    """STR-12: name, arguments and finish reason, whole and streamed."""
    async with client(node) as api:
        if streamed:
            async with api.chat.completions.stream(
                model="chat", messages=says("weather"), tools=TOOLS, temperature=0
            ) as events:
                got: Any = await events.get_final_completion()
        else:
            got = await api.chat.completions.create(
                model="chat", messages=says("weather"), tools=TOOLS, temperature=0
            )

    call = got.choices[0].message.tool_calls[0]
    assert call.function.name == "get_weather"
    assert "Paris" in call.function.arguments
    assert got.choices[0].finish_reason == "tool_calls"


@pytest.mark.parametrize("streamed", [False, True])
async def test_reasoning_reaches_the_client(node: Running, streamed: bool) -> None:
    """STR-17: llama.cpp's own field name, apart from the text."""
    async with client(node) as api:
        thought = text = ""
        if streamed:
            async for chunk in await api.chat.completions.create(
                model="chat", messages=says("think"), stream=True, temperature=0
            ):
                for choice in chunk.choices:
                    thought += getattr(choice.delta, "reasoning_content", None) or ""
                    text += choice.delta.content or ""
        else:
            got = await api.chat.completions.create(
                model="chat", messages=says("think"), temperature=0
            )
            thought = getattr(got.choices[0].message, "reasoning_content", None) or ""
            text = got.choices[0].message.content or ""

    assert thought
    assert text
    assert "think>" not in text


@pytest.mark.parametrize("form", ["float", "base64", None])
async def test_embeddings(node: Running, form: Any) -> None:
    """EMB-01: without a format this client asks for base64 and decodes it."""
    more = {} if form is None else {"encoding_format": form}
    async with client(node) as api:
        got = await api.embeddings.create(model="emb", input=["one text", "another"], **more)
        plain = await api.embeddings.create(
            model="emb", input=["one text", "another"], encoding_format="float"
        )

    assert [d.index for d in got.data] == [0, 1]
    if form != "base64":
        assert got.data[0].embedding == pytest.approx(plain.data[0].embedding, abs=1e-5)
    assert len(plain.data[0].embedding) > 8


async def test_completions_and_responses(node: Running) -> None:
    async with client(node) as api:
        text = await api.completions.create(model="chat", prompt="x", max_tokens=4, temperature=0)
        answer = await api.responses.create(model="chat", input="hi", temperature=0)
        streamed = ""
        async for event in await api.responses.create(
            model="chat", input="hi", stream=True, temperature=0
        ):
            if event.type == "response.output_text.delta":
                streamed += event.delta

    assert text.choices[0].finish_reason in ("stop", "length")
    assert answer.output_text == streamed == "Hello, this is a scripted answer."


async def test_errors_become_the_clients_own(node: Running) -> None:
    async with client(node) as api:
        with pytest.raises(openai.NotFoundError, match="chat"):
            await api.chat.completions.create(model="chatt", messages=says("hi"))
        with pytest.raises(openai.BadRequestError) as too_long:
            await api.chat.completions.create(model="chat", messages=says("word " * 3000))
    async with client(node, api_key="sk-wrong") as api:
        with pytest.raises(openai.AuthenticationError):
            await api.models.list()

    assert too_long.value.code == "context_length_exceeded" or too_long.value.status_code == 400


async def test_models_are_listed(node: Running) -> None:
    async with client(node) as api:
        names = [m.id async for m in await api.models.list()]
        one = await api.models.retrieve("gpt-4o")

    assert names == ["chat", "emb", "gpt-4o"] or set(names) == {"chat", "emb", "gpt-4o"}
    assert one.id == "gpt-4o"


async def test_leaving_an_endless_stream_frees_the_engine(node: Running) -> None:
    """CAN-01, for real: four endless streams fill the engine; after they left, it serves."""
    async with client(node) as api:
        for _ in range(8):
            stream = await api.chat.completions.create(
                model="chat", messages=says("loop"), stream=True, max_tokens=400, temperature=0
            )
            async for _chunk in stream:
                break
            await stream.close()
        async with asyncio.timeout(10):
            got = await api.chat.completions.create(model="chat", messages=says("hi"))
        await node.idle()
        records = await node.records(9)

    assert got.choices[0].message.content
    assert [r["outcome"] for r in records].count("cancelled") >= 6


async def test_a_cancelled_whole_request_frees_the_engine(node: Running) -> None:
    async with client(node) as api:
        with pytest.raises(openai.APITimeoutError):
            await api.chat.completions.create(
                model="chat", messages=says("loop"), max_tokens=450, timeout=0.02
            )
        await node.idle()
        record = await node.record()

    assert record["outcome"] == "cancelled"
