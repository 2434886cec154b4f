"""Child processes that never outlive this one, and are ended by their process id alone."""

from __future__ import annotations

import asyncio
import ctypes
import os
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path

_PR_SET_PDEATHSIG = 1  # linux/prctl.h
_libc = ctypes.CDLL(None, use_errno=True)


class Child:
    """One running process; `stop` may be called at any time and any number of times."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    @classmethod
    async def start(
        cls, command: Sequence[str], *, environ: Mapping[str, str], log: Path | None = None
    ) -> Child:
        """Start `command`; its output goes to `log`, or to ours without one."""
        output = (
            None if log is None else os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        )
        try:
            process = await asyncio.create_subprocess_exec(
                *command,
                env=dict(environ),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                # Ctrl-C reaches the whole group of a terminal: children get one of their own, so
                # that engines are not gone while the gateway still drains.
                start_new_session=True,
                preexec_fn=_end_with_parent,
            )
        finally:
            if output is not None:
                os.close(output)
        return cls(process)

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    @property
    def running(self) -> bool:
        """False once it has ended."""
        return self._process.returncode is None

    async def wait(self) -> int:
        """Its exit code, once it has ended; minus the signal's number where one ended it."""
        return await self._process.wait()

    def ask_to_stop(self) -> None:
        """SIGTERM, if it still runs."""
        self._signal(signal.SIGTERM)

    async def stop(self, *, grace_s: float) -> int:
        """End it: SIGTERM, and SIGKILL after `grace_s`. Its exit code."""
        self.ask_to_stop()
        try:
            return await asyncio.wait_for(self._process.wait(), grace_s)
        except TimeoutError:
            self._signal(signal.SIGKILL)
            return await self._process.wait()

    def _signal(self, number: signal.Signals) -> None:
        if self.running:
            # It may end between the look and the signal.
            try:
                self._process.send_signal(number)
            except ProcessLookupError:
                return


def _end_with_parent() -> None:
    """Ask the kernel for SIGTERM when the parent dies: kill -9 of the launcher leaves no engine."""
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
