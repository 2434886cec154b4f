"""A real control plane before scripted engines: in the test's own loop, or as a process to kill.

    async with plane(tmp_path, a=Engine(load_s=0.2), b=Engine()) as it:
        lease = await it.lease("a")

On the way out nothing of its engines is left running, or the test fails.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import stat
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import uvicorn
import yaml

from common.problems import render
from serving.slot import family, proc
from serving.slot.api import Api
from serving.slot.guard import Guard
from serving.slot.journal import Journal
from serving.slot.serve import actor_of
from serving.slot.settings import Settings, load
from tests.ground.repository import ROOT
from tests.served import free_port

HERE = Path(__file__).parent
PROFILE = {
    "id": "some-cloud",
    "name": "Some",
    "family": "some",
    "version": "1",
    "params": "1b",
    "provider": "some",
    "model": "some/one",
}
QUICK = {
    "min_residency_s": 0.0,
    "max_wait_s": 10.0,
    "drain_s": 5.0,
    "stop_grace_s": 0.4,
    "retry_first_s": 0.5,
    "retry_most_s": 2.0,
    "proven_s": 60.0,
    "unknown_load_s": 1.0,
    "adopted_grace_s": 0.2,
    "come_back": False,
}


@dataclass(frozen=True)
class Engine:
    """One recipe: what the scripted engine does, and what its file says beside that."""

    load_s: float = 0.0
    health_late_s: float = 0.0
    dies_after_s: float | None = None
    ignores_term: bool = False
    leaves_child: bool = False
    html: bool = False
    serves: str | None = None
    listens: int | None = None
    says: str = ""
    port: int = 0  # 0: the port that all share
    file: Mapping[str, Any] = field(default_factory=dict)

    def arguments(self) -> list[str]:
        """As llamacpp_args."""
        found: list[str] = []
        for name in ("load_s", "health_late_s", "dies_after_s", "serves", "listens", "says"):
            if value := getattr(self, name):
                found += [f"--{name.replace('_', '-')}", str(value)]
        for name in ("ignores_term", "leaves_child", "html"):
            found += [f"--{name.replace('_', '-')}"] if getattr(self, name) else []
        return found


class Plane:
    """The slot's folder, files and client."""

    def __init__(self, folder: Path, engines: Mapping[str, Engine], **slot: Any) -> None:
        self.folder = folder
        self.port, self.engine_port = free_port(), free_port()
        self.events_file = folder / "events"
        self.run = folder / "run"
        for name in ("recipes", "models"):
            (folder / name).mkdir(exist_ok=True)
        (folder / "models/m.gguf").touch()
        profiles = {"profiles": [PROFILE]}
        (folder / "recipes/roi-profiles.yaml").write_text(yaml.safe_dump(profiles))
        for id_, engine in engines.items():
            self.write(id_, engine)
        self._write_slot(slot)
        self.client = httpx.AsyncClient(
            base_url=f"http://127.0.0.1:{self.port}", trust_env=False, timeout=20
        )

    def _write_slot(self, slot: dict[str, Any]) -> None:
        host = {"models": str(self.folder / "models"), "llama_server": str(self._program())}
        data = {
            "slot": "gpu0",
            "listen": f"127.0.0.1:{self.port}",
            "recipes": str(self.folder / "recipes"),
            "run": str(self.run),
            **slot,
            "rules": QUICK | slot.get("rules", {}),
            "memory": {"every_s": 0.1, "wait_s": 0.3} | slot.get("memory", {}),
            "host": {"docker": "", **host} | slot.get("host", {}),
        }
        self.file = self.folder / "slot.yaml"
        self.file.write_text(yaml.safe_dump(data))

    def _program(self) -> Path:
        program = self.folder / "llama-server"
        script = f'#!/bin/sh\nexec {sys.executable} -S {HERE}/engine_program.py "$@"\n'
        program.write_text(script)
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
        return program

    def write(self, id_: str, engine: Engine) -> None:
        """Write a recipe's file, or write it anew."""
        data: dict[str, Any] = {
            "id": id_,
            "name": id_,
            "engine": "llamacpp",
            "lifecycle": "testing",
            "roi_profile": "some-cloud",
            "served_name": f"{id_}-model",
            "model": "m.gguf",
            "context": {"default": 1024},
            "port": engine.port or self.engine_port,
            "llamacpp_args": ["--events", str(self.events_file), *engine.arguments()],
            "start_timeout_s": 5.0,
            "stop_grace_s": 0.4,
            **engine.file,
        }
        path = self.folder / f"recipes/{id_}.yaml"
        draft = path.with_suffix(".new")
        draft.write_text(yaml.safe_dump({k: v for k, v in data.items() if v is not None}))
        draft.replace(path)

    def settings(self) -> Settings:
        """The slot file as the control plane reads it."""
        loaded = load(str(self.file))
        assert loaded.settings is not None, render(loaded.problems)
        return loaded.settings

    # -- what a gateway asks -----------------------------------------------------------------------

    async def ask(self, recipe: str, *, swap: bool = True, wait_s: float = 10) -> httpx.Response:
        """Ask for a lease; the raw answer."""
        body = {"recipe": recipe, "swap": swap, "wait_s": wait_s, "holder": "a test"}
        return await self.client.post("/api/slot/lease", json=body)

    async def lease(self, recipe: str) -> dict[str, Any]:
        """A lease that must be granted."""
        answer = await self.ask(recipe)
        assert answer.status_code == 200, answer.text
        return dict(answer.json())

    async def end(self, lease: dict[str, Any]) -> dict[str, Any]:
        """Give it back."""
        return dict((await self.client.delete(f"/api/slot/lease/{lease['lease']}")).json())

    async def status(self) -> dict[str, Any]:
        """The whole status."""
        return dict((await self.client.get("/api/slot/status")).json())

    async def switch(self, recipe: str, **more: Any) -> httpx.Response:
        """Ask as the operator."""
        return await self.client.post("/api/slot/switch", json={"recipe": recipe, **more})

    async def until(
        self, true: Callable[[dict[str, Any]], bool], within_s: float = 10
    ) -> dict[str, Any]:
        """The status, once it is so."""
        deadline = time.monotonic() + within_s
        while True:
            found = await self.status()
            if true(found):
                return found
            assert time.monotonic() < deadline, json.dumps(found, indent=1)
            await asyncio.sleep(0.02)

    async def phase(self, phase: str, within_s: float = 10) -> dict[str, Any]:
        """The status, once the slot is in this phase."""
        return await self.until(lambda found: found["phase"] == phase, within_s)

    async def empty(self) -> None:
        """Have the slot emptied, and see that nothing is left."""
        await self.client.post("/api/slot/down", json={"force": True})
        await self.until(lambda found: found["recipe"] is None)
        assert not self.alive()

    # -- what happened -----------------------------------------------------------------------------

    def events(self, event: str) -> list[dict[str, Any]]:
        """Lines of the engines, of this kind."""
        text = self.events_file.read_text() if self.events_file.exists() else ""
        return [row for row in map(json.loads, text.splitlines()) if row["event"] == event]

    def alive(self) -> list[int]:
        """Processes that carry this slot's mark."""
        folder = str(self.run / "slot")
        pids = (each.pid for each in proc.processes())
        return [pid for pid in pids if (proc.variable(pid, family.VARIABLE) or "").endswith(folder)]

    def clean(self) -> None:
        """End what is left, by its mark."""
        for pid in self.alive():
            os.kill(pid, signal.SIGKILL)


@asynccontextmanager
async def plane(folder: Path, *, slot: Any = None, **engines: Engine) -> AsyncIterator[Plane]:
    """A control plane in this loop; at the end the slot is emptied, and nothing may be left."""
    async with standing(folder, engines, **(slot or {})) as it, served(it):
        yield it
        await it.empty()


@asynccontextmanager
async def standing(
    folder: Path, engines: Mapping[str, Engine], **slot: Any
) -> AsyncIterator[Plane]:
    """Files and client, for tests that serve them more than once; at the end nothing runs."""
    it = Plane(folder, engines, **slot)
    try:
        yield it
    finally:
        await it.client.aclose()
        it.clean()


@asynccontextmanager
async def served(it: Plane) -> AsyncIterator[None]:
    """The parts of serve.py on a socket of this loop: no signals, no lock."""
    actor = actor_of(it.settings(), Journal(it.run / "slot"))
    guard = Guard(actor)
    api = Api(actor, guard)
    web = uvicorn.Server(
        uvicorn.Config(
            api.app, log_config=None, access_log=False, lifespan="off", timeout_graceful_shutdown=1
        )
    )
    await actor.begin()
    # With its protocol named: else asyncio leaves Nagle's pause of 40 ms in each answer.
    sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    sock.bind(("127.0.0.1", it.port))
    web.config.load()
    web.lifespan = web.config.lifespan_class(web.config)
    await web.startup(sockets=[sock])
    watching = asyncio.create_task(guard.run())
    try:
        yield
    finally:
        actor.close()
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)
        await web.shutdown(sockets=[sock])
        await api.close()
        await actor.end()


@dataclass
class Process:
    """A control plane as a process of its own."""

    it: Plane
    environ: Mapping[str, str] = field(default_factory=dict)
    process: subprocess.Popen[bytes] | None = None

    async def start(self) -> None:
        """Start it, and wait until it answers."""
        self.process = process = self._launched()
        deadline = time.monotonic() + 15
        while time.monotonic() < deadline:
            assert process.poll() is None, self.log()
            try:
                await self.it.client.get("/health")
            except httpx.TransportError:
                await asyncio.sleep(0.05)
            else:
                return
        raise AssertionError(self.log())

    def _launched(self) -> subprocess.Popen[bytes]:
        with (self.it.folder / "plane.log").open("ab") as log:
            return subprocess.Popen(
                [sys.executable, "-m", "serving.cli", "slot", "serve", "-c", str(self.it.file)],
                cwd=ROOT,
                env={**os.environ, **self.environ},
                stdout=log,
                stderr=log,
            )

    def kill(self) -> None:
        """SIGKILL."""
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    def terminate(self) -> int:
        """SIGTERM; its exit code."""
        assert self.process is not None
        self.process.terminate()
        return self.process.wait(10)

    def log(self) -> str:
        """All that it has said."""
        return (self.it.folder / "plane.log").read_text()


@asynccontextmanager
async def process(
    folder: Path, *, slot: Any = None, environ: Any = None, **engines: Engine
) -> AsyncIterator[Process]:
    """A control plane as a process; at the end all of it is gone."""
    it = Plane(folder, engines, **(slot or {}))
    one = Process(it, environ or {})
    try:
        await one.start()
        yield one
    finally:
        await it.client.aclose()
        if one.process is not None and one.process.poll() is None:
            one.kill()
        it.clean()
        assert "Traceback" not in one.log(), one.log()
