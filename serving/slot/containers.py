"""Containers through the docker command: what runs, how it ended, waiting for the end."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import signal
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

_NO_DAEMON: Final = "Is the docker daemon running"
_PATIENCE_S: Final = 60.0  # docker itself answers at once, or hangs
_PR_SET_PDEATHSIG: Final = 1  # linux/prctl.h
_libc = ctypes.CDLL(None, use_errno=True)


class DockerFailed(Exception):
    """The docker command is missing, hangs, or says no; the message is its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Docker:
    """The docker command of this machine; an empty one says that there are no containers here.

    Only names that a recipe knows are ever touched.
    """

    program: str = "docker"
    environ: Mapping[str, str] = field(default_factory=dict)

    async def running(self, names: Iterable[str]) -> list[str]:
        """Which of these containers run. Without docker on this machine: none. DockerFailed."""
        return await self._named(names, ())

    async def left(self, names: Iterable[str]) -> list[str]:
        """Which of them are there, running or ended."""
        return await self._named(names, ("--all",))

    async def _named(self, names: Iterable[str], more: Sequence[str]) -> list[str]:
        wanted = set(names)
        if not wanted or not self.program:
            return []
        try:
            said = await self.call("ps", *more, "--format", "{{.Names}}")
        except FileNotFoundError:
            return []  # no docker, no containers
        except DockerFailed as error:
            if _NO_DAEMON in str(error):
                return []  # and none without its daemon
            raise
        return sorted(wanted & {name for line in said.splitlines() for name in line.split(",")})

    async def how_it_ended(self, name: str) -> str:
        """The exit code, and whether memory was the reason."""
        try:
            said = await self.call(
                "inspect", "--format", "{{.State.ExitCode}} {{.State.OOMKilled}}", name
            )
        except (DockerFailed, FileNotFoundError):
            return "its container is gone"
        code, _, killed = said.strip().partition(" ")
        return f"its container ended with {code}" + (" (out of memory)" if killed == "true" else "")

    async def wait(self, name: str) -> None:
        """Return once it does not run."""
        with contextlib.suppress(DockerFailed):  # it is gone already
            await self.call("wait", name, patience_s=None)

    async def call(self, *arguments: str, patience_s: float | None = _PATIENCE_S) -> str:
        """What `docker ARGUMENTS` prints. Raises DockerFailed; FileNotFoundError without docker."""
        return await self.run((self.program, *arguments), patience_s=patience_s)

    async def run(self, command: Sequence[str], *, patience_s: float | None = _PATIENCE_S) -> str:
        """The same for a whole command."""
        code, said = await self.output(command, patience_s=patience_s)
        if code:
            lines = said.strip().splitlines() or [f"exit {code}"]
            raise DockerFailed(f"{' '.join(command[:2])}: {lines[-1]}")
        return said

    async def output(
        self,
        command: Sequence[str],
        *,
        patience_s: float | None = _PATIENCE_S,
        log: Path | None = None,
    ) -> tuple[int, str]:
        """Exit code and output, both streams; into `log` instead, if one is given."""
        with contextlib.ExitStack() as stack:
            out = asyncio.subprocess.PIPE if log is None else stack.enter_context(log.open("ab"))
            process = await asyncio.create_subprocess_exec(
                *command,
                env=dict(self.environ) or None,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=out,
                stderr=asyncio.subprocess.STDOUT,
                # kill -9 of the control plane leaves no waiting docker command.
                preexec_fn=_end_with_parent,
            )
        try:
            async with asyncio.timeout(patience_s):
                said, _ = await process.communicate()
        except TimeoutError as error:
            raise DockerFailed(f"{' '.join(command[:2])} hangs") from error
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        return process.returncode or 0, (said or b"").decode("utf-8", "replace")


def _end_with_parent() -> None:
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
