"""Other people's LiteLLM callbacks, called behind the request: the gateway's side.

    write() ── queue ──> a task ── one line a request ──> a process of its own (hooks.py)

A process and not a thread: their modules import litellm, and what they do (block, fill memory,
crash) must not be felt by a request. Every bound here counts what it turns away in `lost`.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections import deque
from collections.abc import Sequence
from pathlib import Path

import msgspec
import structlog

from gateway.bridge.child import OFFLINE
from gateway.bridge.payload import Content, Event
from gateway.config import callbacks
from gateway.config.config import Config
from gateway.records.record import Record

MAX_WAITING = 4096  # events
MAX_WAITING_BYTES = 64 * 1024 * 1024  # of content
RESTART_S = 5.0  # a process that dies at once is not started in a loop
_STOP_S = 5.0

_log = structlog.get_logger("callbacks")


class Told(msgspec.Struct, frozen=True):
    """What the process says of itself: calls that are over, and what went wrong since."""

    called: int = 0
    lost: int = 0
    problem: str | None = None


def others(config: Config) -> tuple[str, ...]:
    """The callbacks of a file that are called: neither our recorder nor LiteLLM's own."""
    return tuple(c for c in config.callbacks if c != callbacks.RECORDER and "." in c)


class Loggers:
    """Tells callbacks of each record. `start` before use, `close` at the end.

    `write` never blocks and never raises. `lost` counts calls that were not made, or failed.
    """

    def __init__(
        self,
        names: Sequence[str],
        config_path: str,
        *,
        max_waiting: int = MAX_WAITING,
        restart_s: float = RESTART_S,
    ) -> None:
        self._names, self._config_path = names, config_path
        self._max_waiting, self._restart_s = max_waiting, restart_s
        self._queue: deque[Event] = deque()
        self._bytes = 0
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._sent = 0  # calls that the process that lives was asked for
        self._told = Told()
        self._lost = 0
        self._closing = False

    @property
    def lost(self) -> int:
        """Calls of a hook that were not made, were not over in time, or raised."""
        return self._lost + self._told.lost

    def start(self) -> None:
        """Begin to load the modules. Returns at once."""
        self._task = asyncio.create_task(self._run())

    def write(self, record: Record, config: Config, content: Content | None = None) -> None:
        """Tell of a request that is over; without room it is counted lost."""
        size = 0 if content is None else len(content.request) + len(content.answer)
        full = len(self._queue) >= self._max_waiting or self._bytes + size > MAX_WAITING_BYTES
        if full or self._closing:
            self._lost += len(self._names)
            return
        self._bytes += size
        self._queue.append(_event(record, config, content))
        self._wake.set()

    async def close(self) -> None:
        """Tell what waits, within a few seconds; the rest is lost."""
        self._closing = True
        self._wake.set()
        if self._task is not None:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._task, _STOP_S + 1)
        self._lost += len(self._queue) * len(self._names)
        self._queue.clear()
        if self.lost:
            _log.warning("callbacks_lost", calls=self.lost)

    async def _run(self) -> None:
        """Keep a process fed; start another where one ended."""
        while not self._closing or self._queue:
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                *("-m", "gateway.bridge.hooks", self._config_path, *self._names),
                env=_surroundings(),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
            )
            listening = asyncio.create_task(self._listen(process))
            try:
                await self._feed(process)
            finally:
                await _end(process, listening)
                self._settle()
            if not self._closing:
                _log.error("callbacks_ended", exit_code=process.returncode)
                await asyncio.sleep(self._restart_s)

    async def _feed(self, process: asyncio.subprocess.Process) -> None:
        """Returns when the process has gone, or when we close and all is told."""
        assert process.stdin is not None  # noqa: S101 -- it was asked for
        gone = asyncio.create_task(process.wait())
        try:
            while process.returncode is None:
                while self._queue and process.returncode is None:
                    await self._send(process.stdin)
                if self._closing:
                    return
                self._wake.clear()
                woken = asyncio.create_task(self._wake.wait())
                await asyncio.wait((gone, woken), return_when=asyncio.FIRST_COMPLETED)
                woken.cancel()
        except (BrokenPipeError, ConnectionResetError):
            return
        finally:
            gone.cancel()

    async def _send(self, stdin: asyncio.StreamWriter) -> None:
        event = self._queue.popleft()
        if event.content is not None:
            self._bytes -= len(event.content.request) + len(event.content.answer)
        self._sent += len(self._names)
        stdin.write(msgspec.json.encode(event) + b"\n")
        await stdin.drain()  # a process that takes nothing fills our queue, and no more

    async def _listen(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdout is not None  # noqa: S101 -- it was asked for
        while line := await process.stdout.readline():
            self._told = msgspec.json.decode(line, type=Told)
            if self._told.problem is not None:
                _log.error("callback_failed", why=self._told.problem)

    def _settle(self) -> None:
        """A process has ended: what it was asked for and did not tell of is lost."""
        self._lost += self._told.lost + self._sent - self._told.called
        self._sent, self._told = 0, Told()


async def _end(process: asyncio.subprocess.Process, listening: asyncio.Task[None]) -> None:
    if process.stdin is not None:
        process.stdin.close()
    try:
        await asyncio.wait_for(process.wait(), _STOP_S)
    except (TimeoutError, asyncio.CancelledError):
        process.kill()
        await process.wait()
    await asyncio.wait((listening,), timeout=1.0)


def _event(record: Record, config: Config, content: Content | None) -> Event:
    found = {deployment.id: deployment for deployment in config.deployments}
    served = found.get(record.deployment or "")
    first = found.get(record.attempts[0].deployment) if record.attempts else None
    return Event(
        record=record,
        provider=served.provider if served else "",
        model=served.served_name if served else record.requested_model or "",
        api_base=(served.api_base or "") if served else "",
        first_group=first.group if first else None,
        content=content,
    )


def _surroundings() -> dict[str, str]:
    """All of ours, as under the stock proxy: the modules are the operator's own."""
    here = str(Path(__file__).parents[2])
    path = [here, *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    return {**os.environ, **OFFLINE, "PYTHONPATH": os.pathsep.join(path)}
