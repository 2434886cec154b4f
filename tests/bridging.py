"""The bridge's real process, started once for many tests: loading the library takes seconds."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from gateway.bridge.child import READY, Child, surroundings
from gateway.bridge.translate import BridgeSender


class Standing(Child):
    """A bridge that was there before, and stays."""

    def __init__(self, path: str) -> None:
        super().__init__()
        self._standing = path

    def start(self) -> None:
        """It is there."""

    async def address(self) -> str:
        """Where it takes calls."""
        return self._standing

    async def close(self) -> None:
        """It stays."""


@contextmanager
def bridge_process() -> Iterator[str]:
    """Where a bridge takes calls, once it is ready."""
    with tempfile.TemporaryDirectory(prefix="signalbox-") as folder:
        path = str(Path(folder) / "calls")
        process = subprocess.Popen(
            [sys.executable, "-m", "gateway.bridge", path],
            env=surroundings(os.environ),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert process.stdout is not None
        try:
            assert process.stdout.readline() == READY
            yield path
        finally:
            process.communicate()


def sender(path: str) -> BridgeSender:
    """A gateway's way to that bridge."""
    return BridgeSender(Standing(path))
