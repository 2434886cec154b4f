"""Configs built directly, with every setting that a test does not name left plain."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from common.problems import Place, Problem
from gateway.config.config import (
    Alias,
    Config,
    Deployment,
    Pin,
    Revision,
    Slot,
    TierName,
    TierRule,
    Upstream,
)
from gateway.config.isolation import check

RULES: Mapping[TierName, TierRule] = {
    "interactive": TierRule(max_wait_s=10.0, max_waiting=64),
    "auxiliary": TierRule(max_wait_s=10.0, max_waiting=64),
    "background": TierRule(max_wait_s=60.0, max_waiting=256),
    "burst": TierRule(max_wait_s=0.0, max_waiting=0),
}
FILE = "config.yaml"
PLANE = "http://127.0.0.1:8767"


def member(group: str, at: str, n: int = 0, **settings: Any) -> Deployment:
    """A deployment of a group at "host:port" or "slot/recipe". Its place is a line of its own."""
    host, _, port = at.partition(":")
    slot, _, recipe = at.partition("/")
    name = settings.pop("served_name", f"{group}-model")
    if recipe:
        settings |= {"slot": slot, "recipe": recipe}
    return Deployment(
        id=f"{group}@{at}/{name}" + (f"#{n}" if n else ""),
        group=group,
        place=Place(FILE, settings.pop("line", 1), 5),
        provider="hosted_vllm",
        served_name=name,
        mode=settings.pop("mode", "chat"),
        upstream=Upstream.on_slot(slot, recipe) if recipe else Upstream(host, int(port or 8000)),
        api_base=None if recipe else f"http://{at}/v1",
        relays=settings.pop("relays", frozenset({"chat", "completions"})),
        **settings,
    )


def config(
    *members: Deployment,
    tiers: Mapping[str, TierName],
    aliases: Mapping[str, str] | None = None,
    pins: Mapping[str, str | Pin] | None = None,
    **settings: Any,
) -> Config:
    """A Config of these deployments. Deployments get lines 10, 20, ... in order."""
    placed = [replace(m, place=Place(FILE, 10 * n, 5)) for n, m in enumerate(members, 1)]
    named = {
        task: Pin(task=task, group=p) if isinstance(p, str) else p
        for task, p in (pins or {}).items()
    }
    return Config(
        path=FILE,
        revision=Revision(sha256="0" * 64),
        deployments=tuple(placed),
        tiers=tiers,
        tier_rules=RULES,
        aliases={name: Alias(name=name, group=g) for name, g in (aliases or {}).items()},
        pins=named,
        slots={d.slot: Slot(name=d.slot, url=PLANE) for d in members if d.slot is not None},
        **settings,
    )


def place(path: Sequence[str | int]) -> Place:
    """Places of a file whose every path is known: a line for each, by what it names."""
    lines = {
        "fallbacks": 101,
        "default_fallbacks": 102,
        "context_window_fallbacks": 103,
        "model_group_alias": 104,
        "task_pins": 105,
    }
    return Place(FILE, next((lines[str(p)] for p in path if p in lines), 100), len(path) or 1)


def problems(made: Config) -> tuple[Problem, ...]:
    """What the isolation rules say about it."""
    return check(made, place)


def codes(made: Config) -> list[str]:
    """The codes of its errors and warnings, in order."""
    return [p.code for p in problems(made)]
