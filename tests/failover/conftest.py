"""The failover tests run on a loop that hurries, by one factor for all times: see pace.py."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator

import pytest

from tests.bridging import bridge_process
from tests.failover.pace import loop_maker


def pytest_asyncio_loop_factories() -> dict[str, Callable[[], asyncio.AbstractEventLoop]]:
    """The loop of these tests."""
    return {"hurried": loop_maker(full=False)}


@pytest.fixture(scope="session")
def bridge_path() -> Iterator[str]:
    """Where the bridge takes calls."""
    with bridge_process() as path:
        yield path
