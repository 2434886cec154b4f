"""A whole box of real parts: llama.cpp servers in a slot, its control plane, and the gateway.

    async with box(tmp_path) as it:
        answer = await it.chat("one", "hi")

Three recipes, `one`, `two` and `three`, are the scripted model in the project's own llama.cpp
child; the gateway and the control plane are processes as people run them. The embeddings come
from a llama.cpp server beside the slot, which no swap may touch.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anthropic
import openai

from serving.slot import proc
from tests.engine import FakeEngine
from tests.ground.repository import ROOT
from tests.node import ENVIRON, TESTER_KEY, Elsewhere, Node, member
from tests.served import Served, free_port
from tests.served import served as serving_gateway
from tests.slot.acts.plane import Engine, Plane, Process, process

ANSWER = "Hello, this is a scripted answer."
MODELS = ("one", "two", "three")
_RECIPE = {
    "engine": "embedded",
    "model": "{models}/model-f16.gguf",
    "context": {"default": 16384},
    "embedded": {"threads": 1, "parallel": 4},
    "llamacpp_args": None,
}
_APIS = ["chat", "completions", "messages"]


@dataclass(frozen=True)
class Box:
    """The parts, and the official clients."""

    control: Process
    gateway: Served
    openai: openai.AsyncOpenAI
    anthropic: anthropic.AsyncAnthropic

    @property
    def plane(self) -> Plane:
        """The slot's folder, files and client."""
        return self.control.it

    async def chat(self, model: str, text: str, **more: Any) -> str:
        """A whole answer by the openai client."""
        said = await self.openai.chat.completions.create(
            model=model, messages=[{"role": "user", "content": text}], **more
        )
        return said.choices[0].message.content or ""

    async def stream(self, model: str, text: str) -> str:
        """A streamed answer by the openai client. Raises as the client does."""
        chunks = await self.openai.chat.completions.create(
            model=model, messages=[{"role": "user", "content": text}], stream=True
        )
        parts = [c.choices[0].delta.content or "" async for c in chunks if c.choices]
        return "".join(parts)

    async def message(self, model: str, text: str) -> str:
        """A streamed answer by the anthropic client."""
        async with self.anthropic.messages.stream(
            model=model, max_tokens=64, messages=[{"role": "user", "content": text}]
        ) as stream:
            return "".join([part async for part in stream.text_stream])

    async def embed(self, text: str) -> list[float]:
        """A vector from beside the slot."""
        return (await self.openai.embeddings.create(model="emb", input=text)).data[0].embedding

    async def records(self, count: int) -> list[dict[str, Any]]:
        """The activity log, once it has so many lines."""
        await until(lambda: len(self.gateway.records()) >= count)
        return self.gateway.records()

    def engine_pids(self) -> list[int]:
        """Processes of the slot that hold the recipes' port."""
        pid = proc.port_holder(self.plane.engine_port)
        return [] if pid is None else [pid]


def node(port: int, embedder: Elsewhere) -> Node:
    """The gateway's file: a name for each recipe, `active`, and the embeddings."""
    nobody = FakeEngine("nobody")

    def on(recipe: str) -> Any:
        info = {"slot": "gpu0", "recipe": recipe, "id": recipe, "apis": _APIS}
        return member(nobody, info, api_base=None, timeout=30)

    vectors = {"id": "emb", "mode": "embedding", "apis": ["embeddings"]}
    return Node(
        {
            **{name: on(name) for name in (*MODELS, "active")},
            "emb": member(embedder, vectors, model="hosted_vllm/scripted"),
        },
        settings={"slots": {"gpu0": {"url": f"http://127.0.0.1:{port}", "max_hold_s": 30}}},
    )


@asynccontextmanager
async def box(folder: Path, **rules: Any) -> AsyncIterator[Box]:
    """Start all of it; at the end nothing is left running. `rules` are the slot's."""
    models = {"models": str(ROOT / "tests/data/scripted-model")}
    engines = {name: Engine(file={"served_name": f"{name}-model", **_RECIPE}) for name in MODELS}
    async with process(folder, slot={"host": models, "rules": rules}, **engines) as control:
        with _embedder() as embedder:
            async with serving_gateway(node(control.it.port, embedder), folder) as gateway:
                base = f"http://127.0.0.1:{gateway.port}"
                given: Any = {"api_key": TESTER_KEY, "max_retries": 0, "timeout": 60}
                async with (
                    openai.AsyncOpenAI(base_url=f"{base}/v1", **given) as one,
                    anthropic.AsyncAnthropic(base_url=base, **given) as other,
                ):
                    yield Box(control, gateway, one, other)
        await _empty(control)


async def _empty(control: Process) -> None:
    if control.process is not None and control.process.poll() is None:
        await control.it.empty()


@contextlib.contextmanager
def _embedder() -> Any:
    port = free_port()
    command = [sys.executable, "-m", "tests.clients.llama", str(port)]
    running = subprocess.Popen(
        command, env={**os.environ, **ENVIRON}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        yield Elsewhere("embedder", f"http://127.0.0.1:{port}/v1")
    finally:
        running.kill()
        running.wait()


async def until(true: Any, within_s: float = 20.0) -> None:
    """Look again and again: other processes tell us nothing."""
    async with asyncio.timeout(within_s):
        while not true():
            await asyncio.sleep(0.02)
