"""The embedded node: the engines, the gateway before them, and the file they meet in."""

from __future__ import annotations

import asyncio
import os
import secrets
import signal
import socket
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from serving.embedded.child import Child
from serving.embedded.engines import (
    Engine,
    EngineError,
    LanePriority,
    LaneSettings,
    Settings,
    free_ports,
)
from serving.embedded.probe import EndedError, NotReadyError, until_200
from serving.embedded.slot import Plane

ROUTING_FILE = Path(__file__).with_name("embedded.yaml")
GATEWAY_READY_WITHIN_S = 30.0
GATEWAY_STOP_GRACE_S = 40.0  # its own drain limit is 30 s

# name of the engine -> the name it serves its model under, as the routing file has it
ENGINES = {"chat": "chat-model", "aux": "aux-model"}
# The embedding lanes: one model, two processes, so that a batch never delays a question. They share
# the cores, so the one that nobody waits for takes what the others leave.
LANES: dict[str, LanePriority] = {"emb-query": "normal", "emb-ingest": "idle"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What one run of the node is made of."""

    model: Path
    port: int
    run_dir: Path
    routing_file: Path = ROUTING_FILE


class Node:
    """Two engines, two embedding lanes, a slot and a gateway, started once and stopped whole."""

    def __init__(self, options: Options, said: Callable[[str], None]) -> None:
        self._options = options
        self._said = said
        self._stop = asyncio.Event()
        self._gateway: Child | None = None
        self.key = f"sk-{secrets.token_urlsafe(24)}"
        self.env_file = options.run_dir / "embedded.env"
        *ports, plane_port = free_ports(len(ENGINES) + len(LANES) + 1)
        threads = max(1, ((os.cpu_count() or 1) - 1) // len(ENGINES))
        self.engines = tuple(
            Engine(
                settings=Settings(
                    name=name,
                    served_name=served_name,
                    model=str(options.model),
                    port=port,
                    threads=threads,
                    key=f"sk-{secrets.token_urlsafe(24)}",
                ),
                run_dir=options.run_dir,
                said=said,
            )
            for (name, served_name), port in zip(ENGINES.items(), ports, strict=False)
        )
        self.lanes = tuple(
            Engine(
                settings=LaneSettings(
                    name=name,
                    port=port,
                    threads=threads,
                    priority=priority,
                    key=f"sk-{secrets.token_urlsafe(24)}",
                ),
                run_dir=options.run_dir,
                said=said,
            )
            for (name, priority), port in zip(LANES.items(), ports[len(ENGINES) :], strict=True)
        )

        self.plane = Plane(
            model=options.model,
            port=plane_port,
            key=f"sk-{secrets.token_urlsafe(24)}",
            run_dir=options.run_dir,
            said=said,
        )

    @property
    def url(self) -> str:
        """What a client is given as its base URL."""
        return f"http://127.0.0.1:{self._options.port}/v1"

    def variables(self) -> dict[str, str]:
        """What the routing file reads from the environment: where the engines are, and all keys."""
        found = {
            "GATEWAY_MASTER_KEY": self.key,
            "KEY_JOBS": f"sk-{secrets.token_urlsafe(24)}",
            "SLOT_URL": self.plane.url,
            "SLOT_KEY": self.plane.key,
        }
        for engine in (*self.engines, *self.lanes):
            name = engine.settings.name.upper().replace("-", "_")
            found[f"{name}_API_BASE"] = f"http://127.0.0.1:{engine.settings.port}/v1"
            found[f"{name}_API_KEY"] = engine.settings.key
        return found

    async def run(self, serving: Callable[[Node], None]) -> int:
        """Serve until a signal or until the gateway ends; `serving` is called once it answers.

        Returns the gateway's exit code. Raises EngineError where an engine cannot serve. On every
        way out the gateway stops first, while its engines still finish what it drains.
        """
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._on_signal)
        self._options.run_dir.mkdir(parents=True, exist_ok=True)
        write_env_file(self.env_file, self.variables())
        ready = [asyncio.Event() for _ in self.engines]
        work: list[asyncio.Task[None]] = [
            asyncio.create_task(engine.serve(event))
            for engine, event in zip(self.engines, ready, strict=True)
        ]
        stop = asyncio.create_task(self._stop.wait())
        front = asyncio.create_task(self._serve_gateway(ready, serving))
        lanes = asyncio.create_task(self._serve_lanes(ready))
        plane = asyncio.create_task(self._serve_plane(ready))
        try:
            await asyncio.wait({*work, stop, front}, return_when=asyncio.FIRST_COMPLETED)
            for task in work:
                if task.done():
                    task.result()  # raises: an engine's task ends in no other way
            return front.result() if front.done() else 0
        finally:
            await _cancel(stop, front)
            if self._gateway is not None:
                await self._gateway.stop(grace_s=GATEWAY_STOP_GRACE_S)
            await _cancel(*work, lanes, plane)

    async def _serve_lanes(self, ready: list[asyncio.Event]) -> None:
        """Serve embeddings until cancelled. Chat comes first, and does not end where this does.

        One after the other: the first one fetches the model that both load.
        """
        if find_spec("onnxruntime") is None:
            self._said("no embeddings: the extra `embed` is not installed")
            return
        for event in ready:
            await event.wait()
        running: list[asyncio.Task[None]] = []
        try:
            for lane in self.lanes:
                serves = asyncio.Event()
                running.append(asyncio.create_task(lane.serve(serves)))
                waiting = asyncio.create_task(serves.wait())
                await asyncio.wait({waiting, *running}, return_when=asyncio.FIRST_COMPLETED)
                waiting.cancel()
            await asyncio.gather(*running)
        except EngineError as error:
            self._said(f"no embeddings: {error}")
        finally:
            await _cancel(*running)

    async def _serve_plane(self, ready: list[asyncio.Event]) -> None:
        """Serve the slot until cancelled; like the lanes, after the chat and apart from it."""
        for event in ready:
            await event.wait()
        await self.plane.serve()

    async def _serve_gateway(
        self, ready: list[asyncio.Event], serving: Callable[[Node], None]
    ) -> int:
        """Start the gateway once all engines are ready; its exit code when it ends."""
        for event in ready:
            await event.wait()
        command = [
            *(str(Path(sys.executable).with_name("gateway")), "serve"),
            *("-c", str(self._options.routing_file), "--env-file", str(self.env_file)),
            *("--host", "127.0.0.1", "--port", str(self._options.port)),
        ]
        try:
            self._gateway = await Child.start(command, environ=os.environ)
        except FileNotFoundError as error:
            raise EngineError(f"there is no {command[0]}: run make install first") from error
        live = f"http://127.0.0.1:{self._options.port}/health/live"
        try:
            await until_200(live, self._gateway, within_s=GATEWAY_READY_WITHIN_S)
        except EndedError:
            return await self._gateway.wait()  # it has said why itself
        except NotReadyError as error:
            raise EngineError(f"the gateway does not answer at {live}") from error
        serving(self)
        return await self._gateway.wait()

    def _on_signal(self) -> None:
        """The first signal stops in order; a second one tells the gateway to end at once."""
        if self._stop.is_set() and self._gateway is not None:
            self._gateway.ask_to_stop()
        self._stop.set()


async def _cancel(*tasks: asyncio.Task[Any]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def write_env_file(path: Path, variables: Mapping[str, str]) -> None:
    """Write NAME=value lines that only this user can read, whole or not at all."""
    part = path.with_suffix(".part")
    part.unlink(missing_ok=True)
    descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.writelines(f"{name}={value}\n" for name, value in variables.items())
    part.replace(path)


def port_is_free(port: int) -> bool:
    """True if this machine can listen on 127.0.0.1:`port` now."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        # As the gateway's own listener: a port that only waits out old connections is free.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
