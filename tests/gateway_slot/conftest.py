"""Tests of slots run on uvloop, as the gateway does."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import uvloop


def pytest_asyncio_loop_factories() -> dict[str, Callable[[], asyncio.AbstractEventLoop]]:
    """The loop that serves in production."""
    return {"uvloop": uvloop.new_event_loop}
