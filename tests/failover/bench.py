"""The bench: the gateway with the file of the scenarios, the upstream, and the caller.

Every fault under test has a group of its own on one upstream address, and so have the spares: if
the gateway's health were kept by address, one scenario would spoil the next.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from gateway.bridge.translate import BridgeSender
from tests.client import PATHS, Client, Reply, question
from tests.failover import upstream as up
from tests.failover.cells import Cell
from tests.failover.judging import Call, Grade, Miss, call, grade
from tests.failover.pace import LoopClock, later, now_s
from tests.failover.scenarios import Scenario, Story
from tests.failover.upstream import Upstream
from tests.harness import Running, gateway
from tests.node import Member, Node, member

# The settings that the scenarios state, to the letter.
ROUTER = {"num_retries": 2, "timeout": 30, "stream_timeout": 12, "cooldown_time": 10}
IDLE = {"stream_idle_timeout_s": 12}
RESCUE = ["continue", "replay"]
CALLS, EVERY_S = 20, 4.0  # F15


@dataclass(frozen=True, slots=True)
class Run:
    """One scenario in one cell."""

    scenario: Scenario
    cell: Cell

    @property
    def group(self) -> str:
        """A: the group, and its model's name at the upstream."""
        return f"{self.scenario.slug}-{self.cell.name}"

    @property
    def asked(self) -> str:
        """The name that the caller sends."""
        return f"alias-of-{self.group}" if self.cell.alias else self.group

    @property
    def spare(self) -> str:
        """B: the same for its spare, which nobody else uses."""
        return f"spare-of-{self.group}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What a run came to."""

    run: Run
    grade: Grade
    misses: list[Miss]
    calls: list[Call]
    story: Story

    def __str__(self) -> str:
        why = [m.what for m in self.misses] + [c.why for c in self.calls if c.kind != "whole"]
        return f"{self.grade} in {max(c.took_s for c in self.calls):.1f} s {why or ''}"


def node(runs: Iterable[Run], upstream: Upstream) -> Node:
    """The file for these runs."""
    runs = list(runs)
    groups: dict[str, Member] = {}
    for run in runs:
        upstream.plays[run.group] = run.scenario.play
        groups[run.group] = deployment(upstream, run.group, run.cell)
        strict = run.scenario.strict_spare
        upstream.plays[run.spare] = up.strict_spare if strict else up.spare
        groups[run.spare] = deployment(upstream, run.spare, run.cell, accepts_prefix=not strict)
    to_spare = [{run.group: [run.spare]} for run in runs]
    return Node(
        groups,
        aliases={run.asked: run.group for run in runs if run.cell.alias},
        router={**ROUTER, "fallbacks": to_spare, "context_window_fallbacks": to_spare},
        settings={**IDLE, "rescue": {run.group: RESCUE for run in runs}},
    )


def deployment(upstream: Upstream, name: str, cell: Cell, **info: Any) -> Member:
    """A model at the upstream, under its own name."""
    about = {"id": name, "apis": cell.apis, "engine": "vllm", **info}
    return member(upstream.engine, about, model=f"hosted_vllm/{name}")


class Bench:
    """A gateway that serves these runs."""

    def __init__(self, running: Running, upstream: Upstream) -> None:
        self.running, self.upstream = running, upstream

    async def ask(self, model: str, cell: Cell, client: Client | None = None, **more: Any) -> Reply:
        """One question; a stream asks for its usage."""
        if cell.streamed and cell.dialect in ("chat", "completions"):
            more["stream_options"] = {"include_usage": True}
        body = question(model, cell.dialect, cell.streamed, **more)
        client = client or self.running.client
        return await client.post(PATHS[cell.dialect], body, within_s=3600)

    async def run(self, run: Run, client: Client | None = None) -> Result:
        """Play a scenario, grade it, and see whether B still answers a plain call."""
        scenario, cell = run.scenario, run.cell
        if scenario.outage:
            calls = await self._outage(run)
        else:
            asked = self.ask(run.asked, cell, client, **scenario.extra)
            calls = [await call(asked, scenario.within_s)]
        story = Story(
            cell=cell,
            calls=calls,
            a=run.group,
            b=run.spare,
            tries=list(self.upstream.tries.get(run.group, [])),
            spare_tries=list(self.upstream.tries.get(run.spare, [])),
        )
        misses = [*scenario.check(story), *await self._always(run, story)]
        return Result(
            run=run,
            grade=grade(calls, misses, scenario.right),
            misses=misses,
            calls=calls,
            story=story,
        )

    async def _always(self, run: Run, story: Story) -> list[Miss]:
        """What holds in all sixteen: few tries, nothing left open, and B serves the next call."""
        misses = []
        if len(story.tries) > run.scenario.most_tries:
            misses.append(Miss(f"{len(story.tries)} tries on A"))
        if not await self.upstream.over(run.group):
            misses.append(Miss("a connection to A is still open"))
        plain = Cell(run.cell.dialect, False, route=run.cell.route)
        after = await call(self.ask(run.spare, plain), 10.0)
        if after.kind != "whole":
            misses.append(Miss(f"the plain call to B afterwards: {after.why}"))
        return misses

    async def _outage(self, run: Run) -> list[Call]:
        """Twenty calls, one due every 4 s; a slow one delays those after it."""
        began, calls = now_s(), []
        for number in range(CALLS):
            await later(began + number * EVERY_S - now_s())
            calls.append(await call(self.ask(run.asked, run.cell), run.scenario.within_s))
        return calls


@asynccontextmanager
async def bench(
    runs: Iterable[Run], *, bridge: BridgeSender | None = None, seed: int = 1
) -> AsyncIterator[Bench]:
    """Start the upstream and the gateway for these runs."""
    upstream = Upstream()
    file = node(runs, upstream)
    async with gateway(file, clock=LoopClock(), bridge=bridge, seed=seed) as running:
        yield Bench(running, upstream)


async def play(scenario: Scenario, bridge: BridgeSender) -> list[Result]:
    """A scenario in all its cells at once."""
    runs = [Run(scenario, cell) for cell in scenario.cells]
    async with bench(runs, bridge=bridge) as b:
        return list(await asyncio.gather(*(b.run(run) for run in runs)))
