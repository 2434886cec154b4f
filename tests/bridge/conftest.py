"""The bridge's real process, started once for all tests: loading the library takes seconds."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest
import uvloop

from gateway.bridge.child import READY, Child, surroundings
from gateway.bridge.translate import BridgeSender
from tests.clients.conftest import llama
from tests.harness import Running, gateway
from tests.node import Node

__all__ = ["llama"]


def pytest_asyncio_loop_factories() -> dict[str, Callable[[], asyncio.AbstractEventLoop]]:
    """The loop that serves in production."""
    return {"uvloop": uvloop.new_event_loop}


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


@pytest.fixture(scope="session")
def address() -> Iterator[str]:
    """Where the bridge's process takes calls."""
    with tempfile.TemporaryDirectory(prefix="signalbox-") as folder:
        path = str(Path(folder) / "calls")
        process = subprocess.Popen(
            [sys.executable, "-m", "gateway.bridge", path],
            env=surroundings(os.environ),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert process.stdout is not None
        assert process.stdout.readline() == READY
        yield path
        process.communicate()


Start = Callable[..., AbstractAsyncContextManager[Running]]


@pytest.fixture
def bridged(address: str) -> Start:
    """The gateway in front of a node's engines, with the bridge."""

    def start(node: Node, *others: Any, **more: Any) -> AbstractAsyncContextManager[Running]:
        return gateway(node, *others, bridge=BridgeSender(Standing(address)), **more)

    return start
