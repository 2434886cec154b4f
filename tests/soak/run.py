"""The soak: 200 clients, faulty engines, cancels and reloads, in one process, for a given time.

    python -m tests.soak --minutes 10

Judged: no wrong answer, no permit, task, socket or file handle left, memory flat, a record for each
request. Stated: the p99 of requests to an engine without faults.
"""

from __future__ import annotations

import asyncio
import gc
import os
import time
from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from typing import Any

from common.problems import Place, Problem
from tests.client import PATHS, Broken, Client, question
from tests.engine import FakeEngine
from tests.harness import Running, gateway, until
from tests.node import Node, member
from tests.soak.faults import EXPECTED, flaky, well

_DIALECTS = ("chat", "chat", "completions", "messages")
_PAGE_MB = os.sysconf("SC_PAGE_SIZE") / 1e6
_ROUTER = {
    "num_retries": 1,
    "cooldown_time": 0.5,
    "fallbacks": [{"flaky": ["spare"]}],
}


@dataclass
class Seen:
    """What the clients and the watcher saw."""

    outcomes: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    clean_ms: list[float] = field(default_factory=list)
    memory_mb: list[float] = field(default_factory=list)
    reloads: int = 0
    left: list[str] = field(default_factory=list)  # what should be gone at the end

    @property
    def p99_ms(self) -> float:
        """Of the requests to the engine without faults."""
        ordered = sorted(self.clean_ms)
        return ordered[int(len(ordered) * 0.99)] if ordered else 0.0

    @property
    def growth_mb(self) -> float:
        """Memory of the last quarter of the time above that of the second quarter."""
        quarter = len(self.memory_mb) // 4 or 1
        early, late = self.memory_mb[quarter : 2 * quarter], self.memory_mb[-quarter:]
        return sum(late) / len(late) - sum(early) / max(1, len(early))

    @property
    def requests(self) -> int:
        """All that were begun."""
        return sum(self.outcomes.values())


def _node(random: Random) -> tuple[Node, list[FakeEngine]]:
    faulty = [FakeEngine(n, otherwise=flaky(random, 0.15)) for n in ("a", "b")]
    spare, clean = FakeEngine("spare", otherwise=well), FakeEngine("clean", otherwise=well)
    caps = {"max_parallel_requests": 60, "timeout": 2, "rpm": 1_000_000, "tpm": 1_000_000_000}
    info = {"stream_idle_timeout_s": 0.5}
    node = Node(
        {
            "flaky": [member(e, info, **caps) for e in faulty],
            "spare": member(spare),
            "clean": member(clean, max_parallel_requests=100),
        },
        router=_ROUTER,
        rules={"interactive": {"queue": {"max_wait_s": 2, "max_waiting": 200}}},
    )
    return node, [*faulty, spare, clean]


async def _client(g: Running, random: Random, ends: float, seen: Seen) -> None:
    client = Client("127.0.0.1", g.port, g.client.key)
    while time.monotonic() < ends:
        model = "clean" if random.random() < 0.2 else "flaky"
        dialect, stream = random.choice(_DIALECTS), random.random() < 0.6
        try:
            if random.random() < 0.15:
                await _leave(client, random, model, dialect, stream=stream)
                seen.outcomes["left"] += 1
            else:
                await _ask(client, model, dialect, seen, stream=stream)
        except (TimeoutError, OSError, Broken) as failed:
            seen.outcomes["broken"] += 1
            seen.wrong.append(f"{model} {dialect} stream={stream}: {failed!r}")


async def _ask(client: Client, model: str, dialect: str, seen: Seen, *, stream: bool) -> None:
    began = time.perf_counter()
    got = await client.ask(model, dialect=dialect, stream=stream, within_s=30)
    outcome = f"status {got.status}" if got.error is None else f"error, status {got.status}"
    seen.outcomes[outcome] += 1
    if model == "clean" and got.status == 200:
        seen.clean_ms.append((time.perf_counter() - began) * 1000)
    if got.status == 200 and got.error is None:
        text = got.text if stream else _text(got.json, dialect)
        if text != EXPECTED:
            seen.wrong.append(f"{model} {dialect} stream={stream}: {len(text)} characters as whole")
    if model == "clean" and got.status not in (200, 429):
        seen.wrong.append(f"the engine without faults: status {got.status}")


def _text(body: Any, dialect: str) -> str:
    if dialect == "messages":
        return "".join(part["text"] for part in body["content"])
    choice = body["choices"][0]
    return str(choice["text"] if dialect == "completions" else choice["message"]["content"])


async def _leave(client: Client, random: Random, model: str, dialect: str, *, stream: bool) -> None:
    """Begin a request and go: at once, after the head, or in the middle."""
    body = question(model, dialect, stream)
    async with client.sending(PATHS[dialect], body) as opened:
        if random.random() < 0.4 and stream:
            head = asyncio.ensure_future(opened.head())
            await asyncio.wait([head], timeout=random.random() / 10)
            head.cancel()
        opened.leave(reset=random.random() < 0.5)


async def _reload(g: Running, seen: Seen, every_s: float) -> None:
    """Swap the file: other caps, a group gone and back; at times a file that is refused."""
    bad = (Problem(Place("node.yaml", 1, 1), "error", "yaml", "half written"),)
    base = g.config
    while True:
        await asyncio.sleep(every_s)
        seen.reloads += 1
        if seen.reloads % 3 == 0:
            g.server.reject(bad)
            continue
        cap = 40 + 10 * (seen.reloads % 5)
        changed = (
            replace(d, max_parallel_requests=cap) if d.group == "flaky" else d
            for d in base.deployments
        )
        g.server.swap(replace(base, deployments=tuple(changed)))


async def _measure(seen: Seen, engines: list[FakeEngine]) -> None:
    while True:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        seen.memory_mb.append(pages * _PAGE_MB)
        for engine in engines:  # what they noted is no part of the gateway's memory
            engine.requests.clear()
            engine.connections[:] = [c for c in engine.connections if not c.transport.is_closing()]
        await asyncio.sleep(0.5)


def _handles() -> int:
    return len(os.listdir("/proc/self/fd"))  # noqa: PTH208 -- a count is all


async def soak(seconds: float, *, clients: int = 200, seed: int = 1, every_s: float = 3.0) -> Seen:
    """Run it; the harness itself fails on permits, tasks or markers that are left."""
    seen, random = Seen(), Random(seed)
    node, engines = _node(random)
    async with gateway(Node({"chat": FakeEngine("first")})) as g:
        await g.client.ask("chat")  # what a process opens once is no leak
    before = _handles()
    async with gateway(node) as g:
        aside = [
            asyncio.create_task(_reload(g, seen, every_s)),
            asyncio.create_task(_measure(seen, engines)),
        ]
        ends = time.monotonic() + seconds
        await asyncio.gather(*(_client(g, Random(seed + n), ends, seen) for n in range(clients)))
        for task in aside:
            task.cancel()
        await g.idle()
        await until(lambda: not g.server.relay.running)
        if g.server.relay.running:
            seen.left.append(f"{len(g.server.relay.running)} requests")
        states = [s for s in g.server.now().deployments if s.in_flight]
        seen.left += [f"{s.in_flight} permits of {s.id}" for s in states]
        await asyncio.to_thread(g.server.activity.flush)
        answered = seen.requests - seen.outcomes["left"] - seen.outcomes["broken"]
        if not answered <= g.server.activity.written <= seen.requests or g.server.activity.lost:
            seen.left.append(f"{g.server.activity.written} records for {seen.requests} requests")
    gc.collect()
    await until(lambda: _handles() <= before)
    if _handles() > before:
        seen.left.append(f"{_handles() - before} file handles")
    return seen
