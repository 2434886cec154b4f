"""Each test runs on both loops: uvloop, which serves, and asyncio's own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping

import pytest
import uvloop

from gateway.http1.client import Client


def pytest_asyncio_loop_factories(
    config: pytest.Config, item: pytest.Item
) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """The loops that each test runs on; pytest-asyncio calls this."""
    return {"asyncio": asyncio.SelectorEventLoop, "uvloop": uvloop.new_event_loop}


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    """A client that is closed after the test, and has then left nothing open."""
    client = Client()
    yield client
    await client.close()
    assert client.open_connections == 0
