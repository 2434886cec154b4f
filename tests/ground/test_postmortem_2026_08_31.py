"""Replays postmortems/2026-08-31: a compaction job on the default route stalled a live session.

On the example file, compaction never reaches the interactive pair, whatever fails; a task that
nobody pinned is refused; and what overflows to the pair does so within both bounds.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from random import Random

import pytest

from gateway.config.config import Config, Upstream
from gateway.config.load import load
from gateway.config.reach import reaches
from gateway.errors import UnknownTask
from gateway.routing.choose import candidates
from gateway.routing.facts import RequestFacts
from gateway.routing.health import Health
from gateway.routing.table import RouteTable, Stage, after, build, resolve
from tests.ground.repository import ROOT

EXAMPLE = ROOT / "config.example.yaml"
COMPACTION = ("summarise", "memory-flush")  # what compacts a conversation
SIX = {"summarise", "title", "extract", "triage", "memory-flush", "background-review"}


@pytest.fixture(scope="module")
def config() -> Config:
    names = set(re.findall(r"os\.environ/(\w+)", EXAMPLE.read_text()))
    environ = {
        name: f"http://{name.lower().replace('_', '-')}.example:8000/v1"
        if name.endswith("_BASE")
        else f"sk-{name.lower()}"
        for name in names
    }
    loaded = load(str(EXAMPLE), environ)
    assert loaded.config is not None, loaded.problems
    return loaded.config


@pytest.fixture(scope="module")
def table(config: Config) -> RouteTable:
    return build(config)


def interactive(config: Config) -> set[Upstream]:
    """The upstreams that people wait on: the pair."""
    return {
        each.upstream
        for each in config.deployments
        if config.tiers.get(each.group) == "interactive"
    }


def served_by(config: Config, table: RouteTable, task: str) -> Iterator[Upstream]:
    """Every upstream that a task gets to when each attempt fails in turn, fallbacks included."""
    route = resolve(table, None, task, table.routes)
    waiting, tried = [Stage(route.group)], set[str]()
    while waiting:
        stage = waiting.pop(0)
        if stage.group in tried:
            continue
        tried.add(stage.group)
        decision = candidates(
            table.groups[stage.group],
            RequestFacts(dialect="chat"),
            health=Health(),
            now=0.0,
            random=Random(0),
            bridge=True,
        )
        yield from (candidate.deployment.upstream for candidate in decision.candidates)
        waiting[:0] = after(table, route, stage, overflow=False)


def test_the_six_kinds_of_background_work_are_pinned(config: Config) -> None:
    assert set(config.pins) >= SIX


@pytest.mark.parametrize("task", COMPACTION)
def test_compaction_never_reaches_the_interactive_pair(
    task: str, config: Config, table: RouteTable
) -> None:
    reached = {reach.upstream for reach in reaches(config) if reach.name == f"task/{task}"}
    served = set(served_by(config, table, task))

    assert interactive(config)
    assert served
    assert served <= reached
    assert not reached & interactive(config)


@pytest.mark.parametrize("model", [None, "primary-chat", "background-llm"])
def test_an_unpinned_task_is_refused_and_told_which_tasks_there_are(
    model: str | None, table: RouteTable
) -> None:
    with pytest.raises(UnknownTask) as caught:
        resolve(table, model, "compaction", table.routes)

    assert all(task in caught.value.message for task in SIX)


def test_background_work_overflows_to_the_pair_only_within_both_bounds(config: Config) -> None:
    overflows = [
        reach
        for reach in reaches(config)
        if reach.upstream in interactive(config)
        and (reach.kind == "task" or reach.tier in ("auxiliary", "background"))
    ]

    assert overflows
    for reach in overflows:
        assert reach.bound is not None
        assert (reach.bound.rpm, reach.bound.max_parallel_requests) == (4, 1)
