"""Real llama.cpp servers with the scripted model in the slot: they swap, die and come back."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path
from typing import Any

import httpx

from tests.slot.acts.plane import Engine, plane

GGUF = Path(__file__).parents[2] / "data/scripted-model/model-f16.gguf"


def real(**more: Any) -> Engine:
    given = {"engine": "embedded", "model": str(GGUF), "llamacpp_args": None}
    context = {"context": {"default": 512}, "embedded": {"threads": 1, "parallel": 1}}
    return Engine(file={**given, **context, "start_timeout_s": 60.0, **more})


async def say(lease: dict[str, Any]) -> dict[str, Any]:
    """One chat with the engine itself, as the gateway would send it."""
    body = {"model": lease["served_name"], "messages": [{"role": "user", "content": "hi"}]}
    async with httpx.AsyncClient(trust_env=False, timeout=30) as client:
        return dict((await client.post(f"{lease['url']}/chat/completions", json=body)).json())


async def test_two_real_engines_swap_and_one_that_was_killed_comes_back(tmp_path: Path) -> None:
    async with plane(tmp_path, a=real(), b=real()) as it:
        first = await it.lease("a")
        waiting = asyncio.create_task(it.lease("b"))
        answer = await say(first)
        await it.end(first)
        second = await waiting
        other = await say(second)

        assert answer["model"] == "a-model"
        assert answer["choices"][0]["message"]["content"] == "Hello, this is a scripted answer."
        assert other["model"] == "b-model"

        [pid] = it.alive()
        os.kill(pid, signal.SIGKILL)
        await it.until(lambda found: "b" in found["failures"])
        await it.until(lambda found: found["failures"]["b"]["retry_in_s"] == 0)
        third = await it.lease("b")

        assert (await it.end(second))["ended"] == "engine_died"
        assert (await say(third))["model"] == "b-model"
        bench = await it.client.post("/api/slot/bench", json={})
        assert bench.status_code == 202
        found = await it.until(lambda found: found["bench"] is not None)
        assert found["bench"]["error"] == ""
