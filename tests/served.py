"""The gateway as people run it: `python -m gateway.cli serve` in a process of its own."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import secrets
import signal
import socket
import sys
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

from tests import markers
from tests.client import Client
from tests.node import ENVIRON, MASTER_KEY, TESTER_KEY, Node


class Served:
    """One serving process: its file, its output and its client."""

    def __init__(self, folder: Path, port: int) -> None:
        self.file = folder / "config.yaml"
        self.activity = folder / "activity.jsonl"
        self.log = folder / "output.log"
        self.port = port
        self.client = Client("127.0.0.1", port, TESTER_KEY)
        self.operator = Client("127.0.0.1", port, MASTER_KEY)
        self.process: asyncio.subprocess.Process

    def write(self, node: Node) -> bytes:
        """Put a node into the file; returns the text."""
        text = node.yaml(str(self.activity))
        self.file.write_bytes(text)
        return text

    async def start(self, *arguments: str) -> None:
        """Start it and wait until it serves."""
        await self._launch(*arguments)
        await self.until(self._live, "it does not serve")

    async def run(self, *arguments: str) -> int:
        """Start it and wait until it ends; returns the exit code."""
        await self._launch(*arguments)
        return await asyncio.wait_for(self.process.wait(), 15)

    async def _launch(self, *arguments: str) -> None:
        command = [sys.executable, "-m", "gateway.cli", "serve", "-c", str(self.file)]
        command += ["--host", "127.0.0.1", "--port", str(self.port), *arguments]
        environ = {**os.environ, **ENVIRON, "PYTHONUNBUFFERED": "1"}
        with self.log.open("ab") as log:
            self.process = await asyncio.create_subprocess_exec(
                *command, env=environ, stdout=log, stderr=log
            )

    async def _live(self) -> bool:
        assert self.process.returncode is None, f"it ended: {self.output()}"
        try:
            return (await self.client.get("/health/live", key=None)).status == 200
        except OSError:
            return False

    async def ready(self) -> Any:
        """What `/health/ready` says."""
        return (await self.client.get("/health/ready")).json

    async def revision(self) -> str:
        """The revision in force, by the header of an answer."""
        return (await self.client.get("/v1/models")).headers["x-gateway-config"]

    async def hang_up(self) -> None:
        """Ask for a reload."""
        self.process.send_signal(signal.SIGHUP)

    async def terminate(self) -> None:
        """Ask it to stop."""
        self.process.send_signal(signal.SIGTERM)

    async def until(self, true: Any, otherwise: str, within_s: float = 15.0) -> None:
        """Ask again and again until it is true: another process tells us nothing."""
        deadline = time.perf_counter() + within_s
        while not await true():
            assert time.perf_counter() < deadline, f"{otherwise}: {self.output()}"
            await asyncio.sleep(0.02)

    def output(self) -> str:
        """All that it has printed."""
        return self.log.read_text(errors="replace")

    def records(self) -> list[dict[str, Any]]:
        """The activity records in the file."""
        text = self.activity.read_text() if self.activity.exists() else ""
        return [json.loads(line) for line in text.splitlines()]


@asynccontextmanager
async def served(node: Node, folder: Path, *arguments: str) -> AsyncIterator[Served]:
    """Start the engines and the process; stop both, and look for markers in what it printed."""
    async with AsyncExitStack() as stack:
        for engine in node.engines():
            await stack.enter_async_context(engine)
        it = Served(folder, free_port())
        it.write(node)
        await it.start(*arguments)
        try:
            yield it
        finally:
            if it.process.returncode is None:
                it.process.kill()
                await it.process.wait()
        assert not markers.seen(it.output()), "a key or a prompt in what it printed"
        assert "Traceback" not in it.output(), it.output()


def free_port() -> int:
    """A loopback port that nobody has now, and that the system gives to no connection.

    It is taken a moment later, by another process: a port of the system's own choice could be
    somebody's by then.
    """
    while True:
        port = secrets.choice(range(15_000, 32_000))
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port
