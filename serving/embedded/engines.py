"""The engines of the embedded node: started, waited for, and started again when one dies."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import secrets
import socket
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Literal

from serving.embedded.child import Child
from serving.embedded.probe import EndedError, NotReadyError, until_200

READY_WITHIN_S = 120.0  # a large GGUF from a slow disk
RESTART_PAUSES_S = (0.5, 1.0, 2.0, 4.0, 8.0)  # then it is given up
STEADY_AFTER_S = 60.0  # an engine that ran this long has its restarts back
STOP_GRACE_S = 5.0
LanePriority = Literal["normal", "idle"]  # as the lane's own command has them


class EngineError(Exception):
    """An engine does not serve. The message is one line and says where to look."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What one engine serves, and with how much of the machine."""

    name: str  # for people and the log's file name
    served_name: str
    model: str
    port: int
    threads: int
    context_tokens: int = 4096  # for each request; llama.cpp keeps this much for every slot
    parallel: int = 2
    key: str = field(repr=False)

    @property
    def command(self) -> list[str]:
        """What starts it; the key goes by the variable ENGINE_KEY."""
        settings = {name: value for name, value in asdict(self).items() if name != "key"}
        return [sys.executable, "-m", "serving.embedded.engine", json.dumps(settings)]


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneSettings:
    """One embedding lane: the server of serving/embeddings, with the model that needs no torch."""

    name: str
    port: int
    threads: int
    priority: LanePriority = "normal"
    key: str = field(repr=False)

    @property
    def command(self) -> list[str]:
        """What starts it; the key goes by the variable ENGINE_KEY."""
        return [
            *(sys.executable, "-m", "serving.cli", "embeddings", "serve", "--model", "minilm"),
            *("--port", str(self.port), "--threads", str(self.threads)),
            *("--priority", self.priority, "--api-key-env", "ENGINE_KEY", "--drain-s", "5"),
        ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """One engine under care. `said` gets a line for people when something happens to it."""

    settings: Settings | LaneSettings
    run_dir: Path
    said: Callable[[str], None]

    @property
    def log(self) -> Path:
        """Where its own lines go."""
        return self.run_dir / f"engine-{self.settings.name}.log"

    async def serve(self, ready: asyncio.Event) -> None:
        """Keep one process serving until cancelled; sets `ready` at the first good /health.

        1. It dies before it was ever ready: EngineError at once, the model or the machine is wrong.
        2. It dies later: started again after a pause that grows.
        3. It keeps dying: EngineError.
        """
        deaths = 0
        while True:
            child = await self._start()
            started = asyncio.get_running_loop().time()
            try:
                await self._until_ready(child)
                self.said(f"engine {self.settings.name} serves (process {child.pid})")
                ready.set()
                code = await child.wait()
            except EngineError:
                if not ready.is_set():  # 1
                    raise
                code = await child.stop(grace_s=STOP_GRACE_S)
            finally:
                await child.stop(grace_s=STOP_GRACE_S)
            lived_s = asyncio.get_running_loop().time() - started
            deaths = 1 if lived_s > STEADY_AFTER_S else deaths + 1
            if deaths > len(RESTART_PAUSES_S):  # 3
                raise EngineError(f"engine {self.settings.name} keeps dying: see {self.log}")
            pause_s = RESTART_PAUSES_S[deaths - 1]  # 2
            self.said(f"engine {self.settings.name} died ({_how(code)}): again in {pause_s:g} s")
            await asyncio.sleep(pause_s)

    async def _start(self) -> Child:
        return await Child.start(
            self.settings.command,
            environ={**os.environ, "ENGINE_KEY": self.settings.key},
            log=self.log,
        )

    async def _until_ready(self, child: Child) -> None:
        """Return when /health says 200; EngineError where the process ends or takes too long."""
        url = f"http://127.0.0.1:{self.settings.port}/health"
        try:
            await until_200(url, child, within_s=READY_WITHIN_S)
        except EndedError as error:
            what = f"ended before it served ({_how(error.args[0])})"
            raise EngineError(f"engine {self.settings.name} {what}: see {self.log}") from error
        except NotReadyError as error:
            what = f"is not ready after {READY_WITHIN_S:g} s"
            raise EngineError(f"engine {self.settings.name} {what}: see {self.log}") from error


def free_ports(count: int) -> list[int]:
    """Loopback ports that nobody uses, all different, and that the system gives to no connection.

    An engine takes its port a moment later: one of the system's own choice could be somebody's
    by then.
    """
    found: list[int] = []
    while len(found) < count:
        port = secrets.choice(range(15_000, 32_000))
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):
            found += [port] if port not in found else []
    return found


def _how(code: int) -> str:
    return f"signal {-code}" if code < 0 else f"exit {code}"
