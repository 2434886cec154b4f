"""Heartbeats under real client libraries: a silent engine, a stream that every client reads."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anthropic
import openai
import pytest

from tests.engine import FakeEngine
from tests.engine_answers import Pause
from tests.engine_says import Say
from tests.harness import Running, gateway
from tests.node import TESTER_KEY, Node


@pytest.fixture
async def silent() -> AsyncIterator[Running]:
    """An engine that is silent between its words, behind heartbeats."""
    engine = FakeEngine("e", otherwise=Say(before=(Pause(0.3),), between=(Pause(0.25),)))
    async with gateway(Node({"chat": engine}, settings={"heartbeat_s": 0.1})) as running:
        yield running


async def test_the_openai_client_reads_through_heartbeats(silent: Running) -> None:
    """STR-07: no parse error, no empty event."""
    api = openai.AsyncOpenAI(base_url=silent.client.base_url, api_key=TESTER_KEY)
    text = ""
    async with api:
        async for chunk in await api.chat.completions.create(
            model="chat", messages=[{"role": "user", "content": "hi"}], stream=True
        ):
            text += chunk.choices[0].delta.content or ""

    assert text == "Hello from here"


async def test_the_anthropic_client_reads_through_heartbeats(silent: Running) -> None:
    base = silent.client.base_url.removesuffix("/v1")
    async with anthropic.AsyncAnthropic(base_url=base, api_key=TESTER_KEY) as api:
        async with api.messages.stream(
            model="chat", max_tokens=9, messages=[{"role": "user", "content": "hi"}]
        ) as stream:
            text = "".join([part async for part in stream.text_stream])

    assert text == "Hello from here"


@asynccontextmanager
async def hop(port: int, idle_s: float) -> AsyncIterator[int]:
    """A proxy in front of a port, which closes when nothing comes back for so long."""

    async def up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65536):
            writer.write(data)

    async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        inner_reader, inner_writer = await asyncio.open_connection("127.0.0.1", port)
        sending = asyncio.create_task(up(reader, inner_writer))
        try:
            while data := await asyncio.wait_for(inner_reader.read(65536), idle_s):
                writer.write(data)
        except TimeoutError:
            pass
        finally:
            sending.cancel()
            inner_writer.close()
            writer.close()

    server = await asyncio.start_server(relay, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()


async def test_a_hop_that_closes_idle_connections_does_not_cut_the_stream(
    silent: Running,
) -> None:
    """STR-21: a proxy in front closes after 0.2 s of silence; the engine pauses for longer."""
    text = ""
    async with hop(silent.port, 0.2) as port:
        base = f"http://127.0.0.1:{port}/v1"
        async with openai.AsyncOpenAI(base_url=base, api_key=TESTER_KEY, max_retries=0) as api:
            async for chunk in await api.chat.completions.create(
                model="chat", messages=[{"role": "user", "content": "hi"}], stream=True
            ):
                text += chunk.choices[0].delta.content or ""

    assert text == "Hello from here"
