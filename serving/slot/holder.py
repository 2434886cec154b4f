"""One engine that holds the slot: its processes, its container, its end.

    how                 ends when                                    is gone when
    process             the process that was started ends            no process of its start is left
    container or kit    the start command fails, or the container    ... and no container of its
                        that it left behind ends                     names runs

A start command may stay in the foreground (a recipe runner) or leave a container and end (a kit).
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import structlog

from serving.slot import family
from serving.slot.containers import Docker, DockerFailed
from serving.slot.family import Mark

_log = structlog.get_logger("slot")
_PAUSE_S: Final = 0.05  # between two looks at who is left
_AGAIN_S: Final = 2.0  # docker does not answer: the engine is not therefore dead


class Holder:
    """A started or adopted engine. `ended` and `stop` may run beside each other."""

    def __init__(
        self,
        mark: Mark,
        docker: Docker,
        *,
        process: subprocess.Popen[bytes] | None = None,
        stops: Sequence[Sequence[str]] = (),
        logs: Sequence[str] | None = None,
    ) -> None:
        self.mark = mark
        self._docker = docker
        self._process = process
        self._stops = stops
        self._logs = logs
        self._kept = False

    async def ended(self) -> str:
        """How it ended, at once when it does."""
        code = await self._leader_end()
        names = self.mark.containers
        if not names:
            return how(code)
        if code:
            return f"its start command ended: {how(code)}"
        while running := await self._running(names):
            try:
                await self._docker.wait(running[0])
            except FileNotFoundError:
                break
        return await self._how_its_container_ended()

    async def _how_its_container_ended(self) -> str:
        with contextlib.suppress(DockerFailed):
            for name in await self._docker.left(self.mark.containers):
                return await self._docker.how_it_ended(name)
        return "its container is gone"

    async def _running(self, names: Sequence[str]) -> list[str]:
        while True:
            try:
                return await self._docker.running(names)
            except DockerFailed as error:
                _log.warning("docker", reason=str(error))
                await asyncio.sleep(_AGAIN_S)  # it is asked again until it answers

    async def _leader_end(self) -> int | None:
        """Its exit code once it has ended; None where nobody can know (it is not our child)."""
        pid = self.mark.pid
        if self._process is not None and self._process.poll() is not None:
            return self._process.returncode
        if pid is None:
            return None
        try:
            handle = os.pidfd_open(pid)
        except ProcessLookupError:
            return self._code()
        try:
            # The id may have gone to a stranger before it was opened, not after.
            if family.leads(self.mark):
                await _readable(handle)
        finally:
            os.close(handle)
        return self._code()

    def _code(self) -> int | None:
        return None if self._process is None else self._process.wait()

    def let_go(self) -> None:
        """It runs on, and the next control plane's: Python need not warn of a forgotten child."""
        if self._process is not None and self._process.returncode is None:
            self._process.returncode = 0
        self._process = None

    async def stop(self, kill: asyncio.Event) -> None:
        """Ask it to stop, and return once nothing of it is left. `kill` set: by force, at once."""
        if not kill.is_set():
            family.ask_to_stop(self.mark)
        await self.keep_log()
        commands = asyncio.create_task(self._stop_containers())
        try:
            while await self._is_left(commands):
                if kill.is_set():
                    family.kill(self.mark)
                    await self._kill_containers()
                with contextlib.suppress(TimeoutError):
                    if not kill.is_set():
                        await asyncio.wait_for(kill.wait(), _PAUSE_S)
                    else:
                        await asyncio.sleep(_PAUSE_S)  # the kernel takes its time
        finally:
            commands.cancel()
            await asyncio.gather(commands, return_exceptions=True)
        if self._process is not None:
            self._process.wait()  # it has ended: no zombie stays

    async def _is_left(self, commands: asyncio.Task[None]) -> bool:
        if self._process is not None:
            self._process.poll()
        if family.members(self.mark):
            return True
        if not self.mark.containers:
            return False
        if not commands.done():
            await asyncio.wait({commands}, timeout=_PAUSE_S)
            return True
        return bool(await self._running(self.mark.containers))

    async def _stop_containers(self) -> None:
        if self.mark.containers and await self._running(self.mark.containers):
            for command in self._stops:
                with contextlib.suppress(DockerFailed, OSError):
                    await self._docker.run(command)

    async def _kill_containers(self) -> None:
        for name in await self._running(self.mark.containers) if self.mark.containers else []:
            with contextlib.suppress(DockerFailed, OSError):
                await self._docker.call("kill", name)

    async def keep_log(self) -> None:
        """Save what its container has said, before anything is removed."""
        if self._logs is None or not self.mark.log or self._kept:
            return
        with contextlib.suppress(DockerFailed, OSError):
            if await self._docker.left(self.mark.containers):
                await self._docker.output(self._logs, log=Path(self.mark.log))
            self._kept = True


def how(code: int | None) -> str:
    """An exit code for a person."""
    if code is None:
        return "its process ended"
    return f"it was ended by signal {-code}" if code < 0 else f"it ended with code {code}"


async def _readable(handle: int) -> None:
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    loop.add_reader(handle, ready.set)
    try:
        await ready.wait()
    finally:
        loop.remove_reader(handle)
