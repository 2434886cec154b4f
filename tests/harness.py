"""The real gateway on a real port, in front of scripted engines: what the tests over the wire use.

    a, b = FakeEngine("a", status=503), FakeEngine("b")
    async with gateway(Node({"chat": a, "spare": b}, router={"fallbacks": [...]})) as g:
        reply = await g.client.ask("chat")

The gateway runs in the test's own loop, on a socket. On the way out the harness
checks that no permit is held, that no task of the gateway is left, and that no key or prompt is in
any record or metric.
"""

from __future__ import annotations

import asyncio
import json
import socket
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from random import Random
from typing import Any

from common.problems import render
from gateway.bridge.translate import BridgeSender
from gateway.config.config import Config
from gateway.config.load import load_text
from gateway.inlet.inlet import Inlet
from gateway.server import INFERENCE, Gateway
from tests import markers
from tests.client import Client
from tests.clock import Clock
from tests.engine import FakeEngine
from tests.node import ENVIRON, MASTER_KEY, TESTER_KEY, Node


class Running:
    """A gateway that serves: its client, its records, and what it says about itself."""

    def __init__(self, server: Gateway, port: int, activity: Path, config: Config) -> None:
        self.server = server
        self.port = port
        self.activity = activity
        self.config = config
        self.client = Client("127.0.0.1", port, TESTER_KEY)
        self.operator = Client("127.0.0.1", port, MASTER_KEY)

    async def records(self, count: int, within_s: float = 5.0) -> list[dict[str, Any]]:
        """The activity records, once there are `count`; an error if there are more or fewer."""
        await until(lambda: len(self._lines()) >= count, within_s)
        found = self._lines()
        assert len(found) == count, f"{len(found)} records, not {count}: {found}"
        return found

    async def record(self) -> dict[str, Any]:
        """The only record."""
        return (await self.records(1))[0]

    def _lines(self) -> list[dict[str, Any]]:
        text = self.activity.read_text() if self.activity.exists() else ""
        whole = text[: text.rfind("\n") + 1]  # the writer may be in the middle of the next line
        return [json.loads(line) for line in whole.splitlines()]

    async def routes(self) -> Any:
        """What `/api/routes` says."""
        return (await self.operator.get("/api/routes")).json

    async def metrics(self) -> str:
        """The text of `/metrics`."""
        return (await self.operator.get("/metrics")).body.decode()

    async def in_flight(self) -> float:
        """Requests that hold a permit now, over all deployments, by the metrics."""
        return total(await self.metrics(), "gateway_deployment_in_flight")

    async def idle(self, within_s: float = 5.0) -> None:
        """Wait until nothing is in flight; an error if something stays."""
        async with asyncio.timeout(within_s):
            while await self.in_flight():
                pass


async def until(true: Callable[[], bool], within_s: float = 5.0) -> None:
    """Look again and again until it is true: for files, which tell nobody that they changed."""
    deadline = time.perf_counter() + within_s
    while not true() and time.perf_counter() < deadline:
        await asyncio.sleep(0.005)


def total(metrics: str, name: str) -> float:
    """The sum of a metric over its labels."""
    lines = [x for x in metrics.splitlines() if x.split("{")[0].split(" ")[0] == name]
    return sum(float(line.rpartition(" ")[2]) for line in lines)


def configured(node: Node, activity: Path, environ: Mapping[str, str] | None = None) -> Config:
    """The checked Config of a node; an error with all problems if the file is wrong."""
    loaded = load_text(node.yaml(str(activity)), "node.yaml", dict(environ or ENVIRON))
    assert loaded.config is not None, render(loaded.problems)
    return loaded.config


@asynccontextmanager
async def gateway(
    node: Node,
    *others: FakeEngine,
    clock: Clock | None = None,
    seed: int = 1,
    insecure: bool = False,
    leaks: bool = False,
    bridge: BridgeSender | None = None,
) -> AsyncIterator[Running]:
    """Start the node's engines (and others), then the gateway; stop all of it at the end.

    `leaks=True` leaves the look at permits and markers out, for tests that stop in the middle.
    """
    before = asyncio.all_tasks()
    async with AsyncExitStack() as stack:
        for engine in {id(e): e for e in (*node.engines(), *others)}.values():
            await stack.enter_async_context(engine)
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        activity = folder / "activity.jsonl"
        config = configured(node, activity)
        more: dict[str, Any] = {} if clock is None else {"clock": clock}
        server = Gateway(config, insecure=insecure, random=Random(seed), bridge=bridge, **more)
        port = await stack.enter_async_context(_serving(server))
        running = Running(server, port, activity, config)
        yield running
        if not leaks:
            await running.idle()
            text = await running.metrics()
            assert not markers.seen(text), "a key or a prompt in the metrics"
    if not leaks:
        await until(lambda: not _left_over(before))
        assert not _left_over(before), "tasks that nobody ended"
    if not leaks and activity.exists():
        assert not markers.seen(activity.read_bytes()), "a key or a prompt in a record"


def _left_over(before: set[asyncio.Task[Any]]) -> list[asyncio.Task[Any]]:
    """Tasks of the gateway's code that began since and still run."""
    now = asyncio.all_tasks() - before
    return [t for t in now if "/gateway/" in _source(t.get_coro())]


def _source(coroutine: object) -> str:
    code = getattr(coroutine, "cr_code", None)
    return getattr(code, "co_filename", "")


@asynccontextmanager
async def _serving(server: Gateway) -> AsyncIterator[int]:
    """Run the gateway behind its own server on a free loopback port."""
    sock = socket.create_server(("127.0.0.1", 0), backlog=2048)
    inlet = Inlet(server.serve, server.pages, INFERENCE, outbox=server.outbox)
    await server.start()
    await inlet.open(sock)
    try:
        yield sock.getsockname()[1]
    finally:
        await inlet.close()
        await server.stop()
