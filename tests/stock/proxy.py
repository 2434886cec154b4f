"""The real stock LiteLLM proxy, and this gateway, as processes on real ports with one file."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tests import markers
from tests.client import Client
from tests.harness import until
from tests.node import MASTER_KEY
from tests.served import free_port
from tools import stock

ROOT = Path(__file__).parents[2]
BOOT_S = 100.0  # the proxy's imports alone take ten seconds of CPU

# Without these the proxy asks hosts on the internet when it is imported.
OFFLINE = {
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "LITELLM_LOCAL_ANTHROPIC_BETA_HEADERS": "True",
    "LITELLM_LOCAL_BLOG_POSTS": "True",
    "LITELLM_LOCAL_POLICY_TEMPLATES": "True",
    "LITELLM_LOCAL_AUTOROUTER_PRESETS": "True",
}


class Serving:
    """A serving process: its client, what it printed, and its activity records."""

    def __init__(self, port: int, activity: Path, log: Path) -> None:
        self.client = Client("127.0.0.1", port, MASTER_KEY)
        self.activity, self.log = activity, log

    async def record(self, number: int, within_s: float = 15.0) -> dict[str, Any]:
        """The record of the request that ended as the `number`th; an error if there are more."""
        await until(lambda: len(self.records()) >= number, within_s)
        found = self.records()
        assert len(found) == number, f"{len(found)} records, not {number}: {found[-2:]}"
        return found[-1]

    def records(self) -> list[dict[str, Any]]:
        """All records so far."""
        text = self.activity.read_text() if self.activity.exists() else ""
        return [json.loads(line) for line in text.splitlines()]

    def output(self) -> str:
        """All that it has printed."""
        return self.log.read_text(errors="replace")


@asynccontextmanager
async def stock_proxy(
    file: Path, environ: Mapping[str, str], folder: Path
) -> AsyncIterator[Serving]:
    """Boot the stock proxy with a file, and the recorder writing into `folder`."""
    assert stock.is_current(), "the stock proxy is not installed as locked: run `make stock`"
    port, activity = free_port(), folder / "activity-stock.jsonl"
    command = [str(stock.FOLDER / "bin" / "litellm"), "--config", str(file), "--port", str(port)]
    command += ["--host", "127.0.0.1", "--telemetry", "False"]
    more = {**OFFLINE, **environ, "SIGNALBOX_ACTIVITY": str(activity)}
    it = Serving(port, activity, folder / "proxy.log")
    async with _running(it, command, more, folder, "/health/liveliness"):
        yield it


@asynccontextmanager
async def this_gateway(
    file: Path, environ: Mapping[str, str], folder: Path
) -> AsyncIterator[Serving]:
    """Serve the same file by this gateway, with `folder` as its working directory."""
    port = free_port()
    command = [sys.executable, "-m", "gateway.cli", "serve", "-c", str(file), "--port", str(port)]
    it = Serving(port, folder / "run" / "activity.jsonl", folder / "gateway.log")
    async with _running(it, command, environ, folder, "/health/live"):
        yield it


@asynccontextmanager
async def _running(
    it: Serving, command: Sequence[str], environ: Mapping[str, str], folder: Path, alive: str
) -> AsyncIterator[None]:
    environ = {**os.environ, **environ, "PYTHONPATH": str(ROOT)}
    with it.log.open("wb") as out:
        process = await asyncio.create_subprocess_exec(
            *command, cwd=folder, env=environ, stdout=out, stderr=out
        )
    try:
        await _booted(it, process, alive)
        yield
    finally:
        if process.returncode is None:
            process.terminate()
        try:
            await asyncio.wait_for(process.wait(), 15)
        except TimeoutError:
            process.kill()
            await process.wait()
    assert not markers.seen(json.dumps(it.records())), "a key or a prompt in a record"


async def _booted(it: Serving, process: asyncio.subprocess.Process, alive: str) -> None:
    deadline = time.perf_counter() + BOOT_S
    while True:
        assert process.returncode is None, f"it ended: {it.output()[-2000:]}"
        try:
            if (await it.client.get(alive)).status == 200:
                return
        except OSError:
            pass
        assert time.perf_counter() < deadline, f"not booted: {it.output()[-2000:]}"
        await asyncio.sleep(0.2)
