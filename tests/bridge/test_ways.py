"""The direct way and the library's own: the same request, the same answer, for each provider."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from typing import Any

import pytest

from gateway.bridge.child import surroundings
from tests.bridge.both_ways import PROVIDERS
from tests.engine import FakeEngine
from tests.engine_says import Say
from tests.engine_wire import Received

# Sent to both.
REQUEST: dict[str, Any] = {
    "messages": [
        {"role": "system", "content": "Be short."},
        {"role": "user", "content": [{"type": "text", "text": "hi"}]},
        {
            "role": "assistant",
            "content": "Let me see.",
            "tool_calls": [
                {"id": "A", "type": "function", "function": {"name": "f", "arguments": '{"a": 1}'}}
            ],
        },
        {"role": "tool", "tool_call_id": "A", "content": "42"},
    ],
    "tools": [
        {
            "type": "function",
            "function": {
                "name": "f",
                "description": "d",
                "parameters": {"type": "object", "properties": {"a": {"type": "integer"}}},
            },
        }
    ],
    "tool_choice": "auto",
    "temperature": 0.2,
    "top_p": 0.9,
    "max_tokens": 50,
    "stop": ["x"],
    "top_k": 5,
}
# What only one way says, and why it is no difference.
SAID_BY_ONE = {"stream"}  # false, where nothing streams


@pytest.fixture(scope="module")
def told() -> tuple[dict[str, list[Any]], dict[str, list[Received]]]:
    """Each provider's two answers, and the two requests that the engine saw."""
    return asyncio.run(_both_ways())


async def _both_ways() -> tuple[dict[str, list[Any]], dict[str, list[Received]]]:
    async with FakeEngine("e", otherwise=Say()) as engine:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "tests.bridge.both_ways",
            engine.url,
            json.dumps(REQUEST),
            env=surroundings(os.environ),
            stdout=asyncio.subprocess.PIPE,
        )
        said, _ = await process.communicate()
        pairs = zip(engine.requests[::2], engine.requests[1::2], strict=True)
        return json.loads(said), dict(zip(PROVIDERS, map(list, pairs), strict=True))


def needed(body: dict[str, Any]) -> dict[str, Any]:
    return {k: v for k, v in body.items() if k not in SAID_BY_ONE}


Told = tuple[dict[str, list[Any]], dict[str, list[Received]]]


@pytest.mark.parametrize("provider", PROVIDERS)
def test_the_provider_is_asked_the_same(told: Told, provider: str) -> None:
    direct, plain = told[1][provider]

    assert needed(direct.json) == needed(plain.json)
    assert direct.path == plain.path


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("name", ["authorization", "x-api-key", "anthropic-version"])
def test_the_key_goes_the_same_way(told: Told, provider: str, name: str) -> None:
    direct, plain = told[1][provider]

    assert direct.header(name) == plain.header(name)


@pytest.mark.parametrize("provider", PROVIDERS)
def test_the_client_reads_the_same(told: Told, provider: str) -> None:
    direct, plain = told[0][provider]

    for answer in (direct, plain):
        assert answer["choices"][0]["message"]["content"] == "Hello from here"
        assert answer["choices"][0]["finish_reason"] == "stop"
        assert answer["usage"]["prompt_tokens"] == 7
        assert answer["usage"]["completion_tokens"] == 3
