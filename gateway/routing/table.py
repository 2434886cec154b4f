"""The route table: every name a client can send, the group that serves it, and what follows.

    build     Config -> RouteTable
    resolve   the name or task that a client sent -> Route
    after     a group failed, or found the prompt too long -> the groups to try next

Built once from a Config and never changed: a reload builds another and swaps it whole, so a
request in flight keeps the table that it began with.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Literal

import msgspec

from gateway.config.config import Config, Deployment, TierName, TierRule
from gateway.errors import BadRequest, NotFound, UnknownTask

TASK_PREFIX = "task/"


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """A model group: its tier, how its requests wait, and its deployments in file order."""

    name: str
    tier: TierName
    rule: TierRule
    members: tuple[Deployment, ...]
    shares: tuple[str, ...]  # for each member why it may be chosen, such as "share 10/11"


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """Where a name leads. An alias may have fallbacks of its own, under its own name."""

    name: str
    kind: Literal["group", "alias", "task"]
    group: str
    tier: TierName
    fallbacks: bool = True
    hidden: bool = False

    @property
    def task(self) -> str | None:
        """The task's name, where the route is one."""
        return self.name.removeprefix(TASK_PREFIX) if self.kind == "task" else None


@dataclass(frozen=True, slots=True, kw_only=True)
class RouteTable:
    """Every route and group of one revision of the file."""

    routes: Mapping[str, Route]
    groups: Mapping[str, Group]
    fallbacks: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    context_window_fallbacks: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    default_fallbacks: tuple[str, ...] = ()
    max_fallbacks: int | None = None

    def tasks(self) -> tuple[str, ...]:
        """The names of the tasks that have a pin."""
        return tuple(route.task for route in self.routes.values() if route.task is not None)


class Stage(msgspec.Struct, frozen=True, gc=False):
    """A group in a request's way: how many hops from the asked one."""

    group: str
    hops: int = 0
    how: str = "asked"


def build(config: Config) -> RouteTable:
    """The table of a checked Config."""
    groups = {
        name: Group(
            name=name,
            tier=config.tiers[name],
            rule=config.tier_rules[config.tiers[name]],
            members=members,
            shares=tuple(_share(member, members) for member in members),
        )
        for name, members in config.groups().items()
    }
    return RouteTable(
        routes=_routes(config),
        groups=groups,
        fallbacks=config.fallbacks,
        context_window_fallbacks=config.context_window_fallbacks,
        default_fallbacks=config.default_fallbacks,
        max_fallbacks=config.max_fallbacks,
    )


def _share(member: Deployment, members: tuple[Deployment, ...]) -> str:
    """Why a member may be chosen: its order and its part of the weights on that level."""
    level = [m for m in members if m.order == member.order]
    weights = [m.weight or 1.0 for m in level]
    share = "only one" if len(level) == 1 else f"share {member.weight or 1.0:g}/{sum(weights):g}"
    return share if len(level) == len(members) else f"order {member.order}, {share}"


def _routes(config: Config) -> dict[str, Route]:
    routes = {
        name: Route(name=name, kind="group", group=name, tier=tier)
        for name, tier in config.tiers.items()
    }
    for alias in config.aliases.values():
        routes[alias.name] = Route(
            name=alias.name,
            kind="alias",
            group=alias.group,
            tier=config.tiers[alias.group],
            hidden=alias.hidden,
        )
    for pin in config.pins.values():
        name = TASK_PREFIX + pin.task
        routes[name] = Route(
            name=name,
            kind="task",
            group=pin.group,
            tier=config.tiers[pin.group],
            fallbacks=pin.fallbacks,
        )
    return routes


def resolve(
    table: RouteTable, model: str | None, task: str | None, usable: Container[str]
) -> Route:
    """The route of what a client sent. A task beats the model name; there is no default.

    `usable` holds the names that its key opens: only these are named in an error.
    """
    if task is None and model is not None and model.startswith(TASK_PREFIX):
        task = model.removeprefix(TASK_PREFIX)
    if task is not None:
        route = table.routes.get(TASK_PREFIX + task)
        if route is None:
            known = [t for t in table.tasks() if TASK_PREFIX + t in usable]
            raise UnknownTask(
                f"this task has no pin, so nothing serves it; tasks with one: "
                f"{', '.join(sorted(known)) or 'none'}"
            )
        return route
    if not model:
        raise BadRequest("the body names no model: send 'model', or name a task in X-Task")
    route = table.routes.get(model)
    if route is None:
        names = [n for n, r in table.routes.items() if n in usable and not r.hidden]
        near = get_close_matches(model[:128], names, n=3, cutoff=0.5) or sorted(names)[:10]
        raise NotFound(
            f"no such model here; names near it: {', '.join(near) or 'none'}",
            code="model_not_found",
        )
    return route


def after(
    table: RouteTable, route: Route, stage: Stage, *, overflow: bool, fallbacks: bool = True
) -> tuple[Stage, ...]:
    """The stages that follow when `stage` could not serve, to go before those already waiting.

    Depth first, in the order of the file. An overflow follows only `context_window_fallbacks`. An
    alias may have a list of its own; a name with none has the default one. The caller skips groups
    that it has tried.
    """
    if not (fallbacks and route.fallbacks):
        return ()
    if table.max_fallbacks is not None and stage.hops >= table.max_fallbacks:
        return ()
    lists = table.context_window_fallbacks if overflow else table.fallbacks
    listed = lists.get(route.name) if stage.hops == 0 else None
    if listed is None:
        listed = lists.get(stage.group)
    if listed is None:
        listed = () if overflow else table.default_fallbacks
    how = "context" if overflow else "fallback"
    return tuple(Stage(name, stage.hops + 1, how) for name in listed if name != stage.group)
