"""The embedded engines, with a real llama.cpp and the scripted model."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest

from serving.embedded.child import Child
from serving.embedded.engines import Engine, EngineError, Settings, free_ports

GGUF = Path(__file__).parents[1] / "data/scripted-model/model-f16.gguf"


def engine(run_dir: Path, said: list[str], *, model: Path = GGUF) -> Engine:
    settings = Settings(
        name="chat",
        served_name="chat-model",
        model=str(model),
        port=free_ports(1)[0],
        threads=1,
        context_tokens=512,
        key="sk-engine",
    )
    return Engine(settings=settings, run_dir=run_dir, said=said.append)


@asynccontextmanager
async def serving(one: Engine) -> AsyncIterator[httpx.AsyncClient]:
    """Give a client once the engine is ready; nothing of it is left afterwards."""
    ready = asyncio.Event()
    work = asyncio.create_task(one.serve(ready))
    base = f"http://127.0.0.1:{one.settings.port}"
    try:
        await asyncio.wait_for(ready.wait(), 30)
        async with httpx.AsyncClient(base_url=base, trust_env=False) as client:
            yield client
    finally:
        work.cancel()
        await asyncio.gather(work, return_exceptions=True)


async def ask(client: httpx.AsyncClient, key: str = "sk-engine") -> httpx.Response:
    return await client.post(
        "/v1/chat/completions",
        headers={"Authorization": f"Bearer {key}"},
        json={"messages": [{"role": "user", "content": "hi"}]},
    )


def pid_of(said: list[str]) -> int:
    return int(said[-1].rsplit(" ", 1)[1].rstrip(")"))


async def test_an_engine_answers_to_its_own_key_only(tmp_path: Path) -> None:
    async with serving(engine(tmp_path, [])) as client:
        good, bad = await ask(client), await ask(client, "sk-other")

    assert good.json()["choices"][0]["message"]["content"] == "Hello, this is a scripted answer."
    assert good.json()["model"] == "chat-model"
    assert bad.status_code == 401


async def test_an_engine_that_is_killed_serves_again_on_the_same_port(tmp_path: Path) -> None:
    said: list[str] = []
    async with serving(engine(tmp_path, said)) as client:
        os.kill(pid_of(said), signal.SIGKILL)

        async with asyncio.timeout(30):
            while True:
                try:
                    answer = await ask(client)
                except httpx.TransportError:
                    await asyncio.sleep(0.02)
                    continue
                if answer.status_code == 200:
                    break

    assert any("died (signal 9)" in line for line in said)


async def test_a_model_that_does_not_load_is_one_line_with_the_log(tmp_path: Path) -> None:
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(GGUF.read_bytes()[:5000])
    one = engine(tmp_path, [], model=broken)

    with pytest.raises(EngineError, match="ended before it served") as caught:
        await asyncio.wait_for(one.serve(asyncio.Event()), 30)

    assert str(one.log) in str(caught.value)
    assert one.log.stat().st_mode & 0o077 == 0


async def test_a_stopped_engine_leaves_no_process(tmp_path: Path) -> None:
    said: list[str] = []
    async with serving(engine(tmp_path, said)):
        pid = pid_of(said)

    assert not Path(f"/proc/{pid}").exists()


async def test_a_child_does_not_outlive_a_launcher_that_is_killed(tmp_path: Path) -> None:
    note = tmp_path / "pid"
    launcher = (
        "import asyncio, os, sys\n"
        "from pathlib import Path\n"
        "from serving.embedded.child import Child\n"
        "async def main():\n"
        "    child = await Child.start(['sleep', '60'], environ=os.environ)\n"
        "    Path(sys.argv[1]).write_text(str(child.pid))\n"
        "    await child.wait()\n"
        "asyncio.run(main())\n"
    )
    process = await Child.start(
        [sys.executable, "-c", launcher, str(note)],
        environ={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
    )
    async with asyncio.timeout(20):
        while not (note.exists() and note.read_text()):
            await asyncio.sleep(0.02)

    os.kill(process.pid, signal.SIGKILL)
    await process.wait()

    stat = Path(f"/proc/{note.read_text()}/stat")
    async with asyncio.timeout(10):
        # A dead child of a dead parent may stay a zombie where no init collects it.
        while stat.exists() and stat.read_text().rsplit(")", 1)[1].split()[0] != "Z":
            await asyncio.sleep(0.02)
