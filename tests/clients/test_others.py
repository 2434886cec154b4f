"""The `anthropic` client, LangChain and curl, against the same gateway."""

from __future__ import annotations

import asyncio
import json

import anthropic
import httpx
import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langchain_openai import ChatOpenAI, OpenAIEmbeddings
from pydantic import SecretStr

from tests.clients.claude import ANSWER, TOOL, ask, claude, whole_and_streamed
from tests.harness import Running
from tests.node import TESTER_KEY
from tests.sse import events_of, text_of


async def test_anthropic_whole_and_streamed(node: Running) -> None:
    records = await whole_and_streamed(node)

    assert [r["outcome"] for r in records] == ["ok", "ok"]


async def test_anthropic_tool_use(node: Running) -> None:
    """STR-23: a tool_use block and its stop reason, streamed."""
    async with claude(node) as api, api.messages.stream(**ask("weather", tools=[TOOL])) as stream:
        final = await stream.get_final_message()

    calls = [b for b in final.content if b.type == "tool_use"]
    assert [c.name for c in calls] == ["get_weather"]
    assert final.stop_reason == "tool_use"


async def test_anthropic_errors_become_the_clients_own(node: Running) -> None:
    async with claude(node) as api:
        with pytest.raises(anthropic.NotFoundError):
            await api.messages.create(**ask("hi", model="claude-nope"))
        counted = await api.messages.count_tokens(
            model="chat", messages=[{"role": "user", "content": "hi"}]
        )
    async with claude(node, "sk-wrong") as api:
        with pytest.raises(anthropic.AuthenticationError):
            await api.messages.create(**ask("hi"))

    assert counted.input_tokens > 0


async def test_anthropic_leaves_an_endless_stream(node: Running) -> None:
    async with claude(node) as api:
        for _ in range(6):
            async with api.messages.stream(**ask("loop", max_tokens=400)) as stream:
                async for _event in stream:
                    break
        async with asyncio.timeout(10):
            got = await api.messages.create(**ask("hi"))
        await node.idle()

    assert got.stop_reason == "end_turn"


def langchain(node: Running, http: httpx.AsyncClient) -> ChatOpenAI:
    """LangChain shares one HTTP client between loops unless it is given one."""
    return ChatOpenAI(
        http_async_client=http,
        stream_usage=True,
        model="chat",
        base_url=node.client.base_url,
        api_key=SecretStr(TESTER_KEY),
        temperature=0,
        max_retries=0,
    )


async def test_langchain_invokes_streams_and_calls_tools(node: Running) -> None:
    function = {"name": TOOL["name"], "description": "d", "parameters": TOOL["input_schema"]}
    async with httpx.AsyncClient() as http:
        model = langchain(node, http)
        tools = model.bind_tools([{"type": "function", "function": function}])

        whole = await model.ainvoke([HumanMessage("hi")])
        parts = [part async for part in model.astream([HumanMessage("hi")])]
        call = await tools.ainvoke([HumanMessage("weather")])

    assert whole.content == ANSWER
    assert "".join(str(part.content) for part in parts) == ANSWER
    assert any(part.usage_metadata for part in parts)
    assert isinstance(call, AIMessage)
    assert call.tool_calls[0]["name"] == "get_weather"


async def test_langchain_embeds_texts(node: Running) -> None:
    """EMB-02: with the client's own tokenising off; token numbers are in test_embeddings."""
    async with httpx.AsyncClient() as http:
        model = OpenAIEmbeddings(
            model="emb",
            base_url=node.client.base_url,
            api_key=SecretStr(TESTER_KEY),
            check_embedding_ctx_length=False,
            http_async_client=http,
        )
        vectors = await model.aembed_documents(["one text", "another text"])

    assert len(vectors) == 2
    assert vectors[0] != vectors[1]


async def curl(*arguments: str) -> tuple[int, bytes]:
    process = await asyncio.create_subprocess_exec(
        "curl",
        "-sS",
        "--max-time",
        "20",
        "--noproxy",
        "*",
        *arguments,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, _ = await process.communicate()
    return process.returncode or 0, out


@pytest.mark.parametrize("compressed", [False, True])
async def test_curl_reads_a_stream(node: Running, compressed: bool) -> None:
    """STR-07: plain curl, with compression asked for and not."""
    code, out = await curl(
        "-N",
        *(["--compressed"] if compressed else []),
        "-H",
        f"Authorization: Bearer {TESTER_KEY}",
        "-H",
        "Content-Type: application/json",
        "-d",
        json.dumps(ask("hi", stream=True)),
        f"{node.client.base_url}/chat/completions",
    )

    events = events_of(out)
    assert code == 0
    assert text_of(events) == ANSWER
    assert events[-1].done


async def test_curl_gets_json_errors(node: Running) -> None:
    code, out = await curl(
        "-H",
        f"Authorization: Bearer {TESTER_KEY}",
        "-H",
        "Content-Type: application/json",
        "-d",
        "{not json",
        f"{node.client.base_url}/chat/completions",
    )

    assert code == 0
    assert json.loads(out)["error"]["type"] == "invalid_request_error"


async def test_curl_that_is_killed_frees_the_engine(node: Running) -> None:
    process = await asyncio.create_subprocess_exec(
        "curl",
        "-sSN",
        "--noproxy",
        "*",
        "-H",
        f"Authorization: Bearer {TESTER_KEY}",
        "-H",
        "Content-Type: application/json",
        "-d",
        json.dumps(ask("loop", stream=True, max_tokens=450)),
        f"{node.client.base_url}/chat/completions",
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    await process.stdout.readline()
    process.kill()
    await process.wait()
    await node.idle()
    record = await node.record()

    assert record["outcome"] in ("cancelled", "ok")
