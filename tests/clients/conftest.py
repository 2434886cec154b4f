"""Real clients on uvloop, and one real llama.cpp server for all of them."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
import urllib.request
from collections.abc import AsyncIterator, Callable, Iterator

import pytest
import uvloop

from tests.harness import Running, gateway
from tests.node import ENVIRON, Elsewhere, Node, member
from tests.served import free_port


def pytest_asyncio_loop_factories() -> dict[str, Callable[[], asyncio.AbstractEventLoop]]:
    """The loop that serves in production."""
    return {"uvloop": uvloop.new_event_loop}


@pytest.fixture(scope="session")
def llama() -> Iterator[Elsewhere]:
    """A real llama.cpp server with the scripted model."""
    port = free_port()
    command = [sys.executable, "-m", "tests.clients.llama", str(port)]
    process = subprocess.Popen(
        command, env={**os.environ, **ENVIRON}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        _wait_until_ready(process, f"http://127.0.0.1:{port}/health")
        yield Elsewhere("llama", f"http://127.0.0.1:{port}/v1")
    finally:
        process.kill()
        process.wait()


def _wait_until_ready(process: subprocess.Popen[bytes], url: str) -> None:
    deadline = time.perf_counter() + 60
    while True:
        assert process.poll() is None, "llama.cpp ended while it loaded"
        assert time.perf_counter() < deadline, "llama.cpp does not get ready"
        try:
            with urllib.request.urlopen(url, timeout=1):  # noqa: S310 -- our own child
                return
        except OSError:
            time.sleep(0.02)  # between two looks at a real engine that loads


@pytest.fixture
async def node(llama: Elsewhere) -> AsyncIterator[Running]:
    """The gateway in front of it: `chat` for people, `aux` with its task, `emb` for vectors."""
    apis = ["chat", "completions", "responses", "messages", "count_tokens"]
    model = "hosted_vllm/scripted"
    file = Node(
        {
            "chat": member(llama, {"engine": "llamacpp", "apis": apis}, model=model),
            "emb": member(
                llama, {"id": "emb", "mode": "embedding", "apis": ["embeddings"]}, model=model
            ),
        },
        aliases={"gpt-4o": "chat"},
    )
    async with gateway(file) as running:
        yield running
