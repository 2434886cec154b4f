"""`make run` as a whole: engines, gateway, a streamed answer, and nothing left behind."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from serving.embedded.engines import free_ports
from serving.embedded.node import ROUTING_FILE, write_env_file
from serving.slot import proc
from tests.ground.repository import ROOT

GGUF = ROOT / "tests/data/scripted-model/model-f16.gguf"
KEY = re.compile(r"key +(sk-\S+)")
PID = re.compile(r"engine (\w+) serves \(process (\d+)\)")


@dataclass(frozen=True)
class Run:
    """A running node: how to ask it, and what it said."""

    process: asyncio.subprocess.Process
    client: httpx.AsyncClient
    engine_pids: dict[str, int]
    folder: Path


@asynccontextmanager
async def running(folder: Path) -> AsyncIterator[Run]:
    """Start the launcher as `make run` does, with the scripted model; stop it by SIGTERM."""
    port = free_ports(1)[0]
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "serving.embedded", "--port", str(port), "--model", str(GGUF)),
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    assert process.stdout is not None
    said = ""
    try:
        async with asyncio.timeout(60):
            while "Ctrl-C" not in said:
                line = await process.stdout.readline()
                assert line, f"the launcher ended: {said}"
                said += line.decode()
        drain = asyncio.create_task(process.stdout.read())
        key = KEY.search(said)
        assert key is not None
        async with httpx.AsyncClient(
            base_url=f"http://127.0.0.1:{port}",
            headers={"Authorization": f"Bearer {key[1]}"},
            trust_env=False,
            timeout=30,
        ) as client:
            pids = {name: int(pid) for name, pid in PID.findall(said)}
            yield Run(process, client, pids, folder)
        await stop(process)
        await drain
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def stop(process: asyncio.subprocess.Process) -> None:
    if process.returncode is None:
        process.terminate()
        await asyncio.wait_for(process.wait(), 45)


def chat(model: str, *, stream: bool = False) -> dict[str, object]:
    return {
        "model": model,
        "stream": stream,
        "messages": [{"role": "user", "content": "hi"}],
    }


async def test_a_streamed_answer_comes_through_and_nothing_is_left_after_sigterm(
    tmp_path: Path,
) -> None:
    async with running(tmp_path) as run:
        answer = await run.client.post("/v1/chat/completions", json=chat("chat", stream=True))
        await stop(run.process)

    assert answer.status_code == 200
    assert "data: [DONE]" in answer.text
    assert run.process.returncode == 0
    assert len(run.engine_pids) == 2
    assert not [pid for pid in run.engine_pids.values() if Path(f"/proc/{pid}").exists()]


async def test_chat_falls_back_to_the_other_engine_while_its_own_is_down(tmp_path: Path) -> None:
    async with running(tmp_path) as run:
        first = await run.client.post("/v1/chat/completions", json=chat("chat"))
        os.kill(run.engine_pids["chat"], signal.SIGKILL)
        second = await run.client.post("/v1/chat/completions", json=chat("chat"))

    assert first.headers["x-gateway-tier"] == "interactive"
    assert second.status_code == 200
    assert second.headers["x-gateway-deployment"].startswith("burst@")


async def test_a_pinned_task_goes_to_the_second_engine_and_an_unpinned_one_nowhere(
    tmp_path: Path,
) -> None:
    async with running(tmp_path) as run:
        title = await run.client.post("/v1/chat/completions", json=chat("task/title"))
        other = await run.client.post("/v1/chat/completions", json=chat("task/compaction"))

    assert title.headers["x-gateway-deployment"].startswith("aux@")
    assert other.status_code == 400
    assert "title" in other.json()["error"]["message"]


async def test_two_recipes_swap_on_the_slot_and_nothing_of_it_is_left(tmp_path: Path) -> None:
    async with running(tmp_path) as run:
        one = await run.client.post("/v1/chat/completions", json=chat("slot-one"))
        two = await run.client.post("/v1/chat/completions", json=chat("slot-two", stream=True))
        active = await run.client.post("/v1/chat/completions", json=chat("active"))
        port = int(active.headers["x-slot-upstream-port"])
        held = proc.port_holder(port)
        await stop(run.process)

    assert one.json()["model"] == "small-one"
    assert "data: [DONE]" in two.text
    assert active.headers["x-slot-active-profile"] == "small-two"
    assert held is not None
    assert not Path(f"/proc/{held}").exists()


async def embed(run: Run, model: str) -> httpx.Response:
    """Ask a lane; they start behind the chat engines, so the first answers may be refusals."""
    async with asyncio.timeout(90):
        while True:
            answer = await run.client.post(
                "/v1/embeddings", json={"model": model, "input": ["a cat", "a kitten", "a bill"]}
            )
            if answer.status_code == 200:
                return answer
            await asyncio.sleep(0.1)


async def test_both_lanes_serve_one_model_from_two_processes(tmp_path: Path) -> None:
    async with running(tmp_path) as run:
        ingest, query = await embed(run, "emb-ingest"), await embed(run, "emb-query")

    vectors = [row["embedding"] for row in query.json()["data"]]
    cat, kitten, bill = vectors
    assert sum(a * b for a, b in zip(cat, kitten, strict=True)) > 0.5
    assert sum(a * b for a, b in zip(cat, bill, strict=True)) < 0.4
    assert [row["embedding"] for row in ingest.json()["data"]] == vectors
    assert ingest.headers["x-gateway-tier"] == "background"
    assert query.headers["x-gateway-tier"] == "auxiliary"
    named = [each.headers["x-gateway-deployment"].partition("@") for each in (ingest, query)]
    assert named[0][2] != named[1][2]


def test_a_port_in_use_is_one_line_and_exit_1(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]

        done = subprocess.run(
            [sys.executable, "-m", "serving.embedded", "--port", str(port), "--model", str(GGUF)],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            check=False,
        )

    assert done.returncode == 1
    assert done.stderr == (
        f"signalbox: port {port} is in use: PORT=9100 make run takes another one\n"
    )


def test_the_env_file_can_be_read_by_its_owner_only(tmp_path: Path) -> None:
    path = tmp_path / "embedded.env"
    path.write_text("OLD=1\n")
    path.chmod(0o644)

    write_env_file(path, {"A": "1", "B": "2"})

    assert path.read_text() == "A=1\nB=2\n"
    assert path.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("word", ["weight: 10", "rpm: 4", "max_parallel_requests: 1"])
def test_the_routing_file_shows_what_the_readme_walks_through(word: str) -> None:
    assert word in ROUTING_FILE.read_text()
