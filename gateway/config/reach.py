"""Reach: for every name a client can send, each deployment it can end up on, and how.

    direct     the only member of its own group
    share      one of several members on the lowest `order` level, with its part of the weights
    order      a member on a higher `order` level: only after the levels before it
    fallback   a member of a group that follows after others failed, `depth` groups later
    context    the same, but only where a prompt was too long for a group on the way

This is a walk of the file alone. `tests/isolation` holds it to what the router does.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from gateway.config.config import Config, Deployment, TierName, Upstream

NameKind = Literal["group", "alias", "task"]
How = Literal["direct", "share", "order", "fallback", "context"]
Path = tuple[str | int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """The caps that bound a deployment's traffic; None where there is none."""

    rpm: int | None = None
    tpm: int | None = None
    max_parallel_requests: int | None = None

    @property
    def bounds_overflow(self) -> bool:
        """True with both caps that an overflow to an interactive upstream needs."""
        return self.rpm is not None and self.max_parallel_requests is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Reach:
    """One name can reach one deployment: over how many hops, how, and under which bound."""

    name: str  # as a client sends it: a task is `task/NAME`
    kind: NameKind
    tier: TierName
    upstream: Upstream
    deployment: str  # its id
    group: str  # the group it was reached in
    how: How
    share: float | None  # of its group's lowest `order` level; None on a higher one
    order: int  # its level in its group
    weights: tuple[float, float] | None  # own weight and sum; None where all shares are equal
    depth: int  # 0: its own group; n: after n groups at least
    bound: Bound | None
    overflow: bool  # from an auxiliary or background name or a task to an interactive upstream
    via: Path | None  # the YAML path of the last fallback entry; None at depth 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Name:
    """A name that a client can send, before anything is known of where it leads."""

    name: str
    kind: NameKind
    group: str
    fallbacks: bool = True


@dataclass(frozen=True, slots=True)
class Arrival:
    """The shortest way from a name to a group."""

    group: str
    depth: int
    context: bool  # no way without a prompt that is too long
    via: Path | None


def names(config: Config) -> tuple[Name, ...]:
    """Every name a client can send, in the order of the file: groups, aliases, tasks."""
    groups = [Name(name=group, kind="group", group=group) for group in config.groups()]
    aliases = [Name(name=a.name, kind="alias", group=a.group) for a in config.aliases.values()]
    tasks = [
        Name(name=f"task/{pin.task}", kind="task", group=pin.group, fallbacks=pin.fallbacks)
        for pin in config.pins.values()
    ]
    return (*groups, *aliases, *tasks)


def reaches(config: Config) -> tuple[Reach, ...]:
    """Everything any name can reach, by name, then depth, then the order of the file."""
    groups = config.groups()
    guarded = interactive_upstreams(config)
    return tuple(
        _reach(config, name, arrival, member, guarded=guarded)
        for name in names(config)
        for arrival in arrivals(config, name)
        for member in groups[arrival.group]
    )


def interactive_upstreams(config: Config) -> frozenset[Upstream]:
    """The upstreams that people wait on: those of the members of interactive groups."""
    return frozenset(
        d.upstream for d in config.deployments if config.tiers.get(d.group) == "interactive"
    )


def is_confined(name: Name | Reach, tier: TierName) -> bool:
    """True for what may enter an interactive upstream only as a bounded overflow."""
    return name.kind == "task" or tier in ("auxiliary", "background")


def arrivals(config: Config, name: Name) -> tuple[Arrival, ...]:
    """The groups a name can reach, nearest first, each once.

    1. By failures alone.
    2. Where prompts may be too long as well: only the groups that 1 did not find.
    """
    groups = config.groups()
    if name.group not in groups:
        return ()
    plain = _walk(config, name, context=False)
    either = _walk(config, name, context=True)
    found = [a for a in plain if a.group in groups]
    seen = {a.group for a in found}
    found += [a for a in either if a.group not in seen and a.group in groups]
    return tuple(sorted(found, key=lambda a: (a.depth, a.context)))


def _walk(config: Config, name: Name, *, context: bool) -> list[Arrival]:
    """Breadth first from the name's own group, so that the first arrival is the shortest way."""
    first = Arrival(name.group, 0, False, None)
    found = {name.group: first}
    queue = deque([first])
    while queue:
        here = queue.popleft()
        if not name.fallbacks or here.depth == config.max_fallbacks:
            continue
        for target, path in _next(config, name, here, context=context):
            if target not in found:
                found[target] = Arrival(target, here.depth + 1, context, path)
                queue.append(found[target])
    return list(found.values())


def _next(
    config: Config, name: Name, here: Arrival, *, context: bool
) -> Iterator[tuple[str, Path]]:
    """The groups that follow a group, each with the YAML path of the entry that says so."""
    keys = (name.name, here.group) if here.depth == 0 else (here.group,)
    key = next((k for k in keys if k in config.fallbacks), None)
    if key is not None:
        index = list(config.fallbacks).index(key)
        for i, target in enumerate(config.fallbacks[key]):
            yield target, ("router_settings", "fallbacks", index, key, i)
    else:
        for i, target in enumerate(config.default_fallbacks):
            if target != here.group:
                yield target, ("router_settings", "default_fallbacks", i)
    key = next((k for k in keys if k in config.context_window_fallbacks), None)
    if context and key is not None:
        index = list(config.context_window_fallbacks).index(key)
        for i, target in enumerate(config.context_window_fallbacks[key]):
            yield target, ("router_settings", "context_window_fallbacks", index, key, i)


def _reach(
    config: Config,
    name: Name,
    arrival: Arrival,
    member: Deployment,
    *,
    guarded: frozenset[Upstream],
) -> Reach:
    tier = config.tiers[name.group]
    members = config.groups()[arrival.group]
    level = [m for m in members if m.order == min(m.order for m in members)]
    total = sum(m.weight or 1.0 for m in level)
    weighted = any(m.weight is not None for m in level)
    first = member in level
    bound = Bound(
        rpm=member.rpm, tpm=member.tpm, max_parallel_requests=member.max_parallel_requests
    )
    return Reach(
        name=name.name,
        kind=name.kind,
        tier=tier,
        upstream=member.upstream,
        deployment=member.id,
        group=arrival.group,
        how=_how(arrival, first=first, alone=len(members) == 1),
        share=(member.weight or 1.0) / total if first else None,
        order=member.order,
        weights=(member.weight or 1.0, total) if first and weighted else None,
        depth=arrival.depth,
        bound=None if bound == Bound() else bound,
        overflow=is_confined(name, tier) and member.upstream in guarded,
        via=arrival.via,
    )


def _how(arrival: Arrival, *, first: bool, alone: bool) -> How:
    if arrival.depth > 0:
        return "context" if arrival.context else "fallback"
    if not first:
        return "order"
    return "direct" if alone else "share"
