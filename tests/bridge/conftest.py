"""The gateway with the bridge's real process, which is started once for all tests."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest
import uvloop

from tests.bridging import bridge_process, sender
from tests.clients.conftest import llama
from tests.harness import Running, gateway
from tests.node import Node

__all__ = ["llama"]


def pytest_asyncio_loop_factories() -> dict[str, Callable[[], asyncio.AbstractEventLoop]]:
    """The loop that serves in production."""
    return {"uvloop": uvloop.new_event_loop}


@pytest.fixture(scope="session")
def address() -> Iterator[str]:
    """Where the bridge's process takes calls."""
    with bridge_process() as path:
        yield path


Start = Callable[..., AbstractAsyncContextManager[Running]]


@pytest.fixture
def bridged(address: str) -> Start:
    """The gateway in front of a node's engines, with the bridge."""

    def start(node: Node, *others: Any, **more: Any) -> AbstractAsyncContextManager[Running]:
        return gateway(node, *others, bridge=sender(address), **more)

    return start
