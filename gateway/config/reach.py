"""Reach: for every name a client can send, each deployment it can end up on, and how.

    direct     the only member of its own group
    share      one of several members on the lowest `order` level, with its part of the weights
    order      a member on a higher `order` level: only after the levels before it
    fallback   a member of a group that follows after others failed, `depth` fallbacks away
    context    the same, but only where a prompt was too long for a group on the way

This walks the file alone. `tests/isolation` holds it to what the router does.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Literal

from gateway.config.config import ACTIVE, Config, Deployment, TierName, Upstream
from gateway.config.slot_rules import may_swap

NameKind = Literal["group", "alias", "task"]
How = Literal["direct", "share", "order", "fallback", "context"]
Path = tuple[str | int, ...]

# A file whose fallbacks can be gone through in more orders gets the plain closure instead.
_MOST_STATES = 1000


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
    depth: int  # 0: its own group; n: n fallbacks away
    bound: Bound | None
    overflow: bool  # from an auxiliary or background name or a task to an interactive upstream
    via: Path | None  # the YAML path of the last fallback entry; None at depth 0
    swaps: bool = False  # on a slot: a request by this name may have the recipe loaded


@dataclass(frozen=True, slots=True, kw_only=True)
class Name:
    """A name that a client can send, before anything is known of where it leads."""

    name: str
    kind: NameKind
    group: str
    fallbacks: bool = True


@dataclass(frozen=True, slots=True)
class Arrival:
    """A name's way to a group: how many hops from its own, and by which entry of the file."""

    group: str
    depth: int
    via: Path | None
    context: bool = False  # no way without a prompt that was too long on the way


_State = tuple[tuple[Arrival, ...], frozenset[str]]  # groups still to try, groups tried


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
        _reach(config, name, arrival, member, members=groups[arrival.group], guarded=guarded)
        for name in names(config)
        for arrival in arrivals(config, name)
        for member in groups.get(arrival.group, ())
    )


def interactive_upstreams(config: Config) -> frozenset[Upstream]:
    """The upstreams that people wait on: those of the members of interactive groups.

    The active recipe of a slot may be any: where people use it, they wait on every recipe there.
    """
    own = {d.upstream for d in config.deployments if config.tiers.get(d.group) == "interactive"}
    active = {upstream.slot for upstream in own if upstream.recipe == ACTIVE}
    return frozenset(own | {d.upstream for d in config.deployments if d.slot in active})


def meets(upstream: Upstream, other: Upstream) -> bool:
    """True if work on `upstream` may run where `other` is: the active recipe may be any."""
    on_one_slot = upstream.slot != "" and upstream.slot == other.slot
    return upstream == other or (on_one_slot and upstream.recipe == ACTIVE)


def is_confined(name: Name | Reach, tier: TierName) -> bool:
    """True for what may enter an interactive upstream only as a bounded overflow."""
    return name.kind == "task" or tier in ("auxiliary", "background")


def arrivals(config: Config, name: Name) -> tuple[Arrival, ...]:
    """The groups a name can reach, nearest first, each once.

    1. By failures alone: one way, since the router goes depth first in the order of the file.
    2. Where a prompt may be too long for some group as well: only what 1 does not reach. (Such a
       group is left without following its `fallbacks`, so under a hop limit others get nearer.)
    """
    if name.group not in config.tiers:
        return ()
    found = _walk(config, name, overflow=False)
    if config.context_window_fallbacks or config.max_fallbacks is not None:
        either = _walk(config, name, overflow=True)
        found |= {g: replace(a, context=True) for g, a in either.items() if g not in found}
    return tuple(sorted(found.values(), key=lambda a: (a.depth, a.context)))


def _walk(config: Config, name: Name, *, overflow: bool) -> dict[str, Arrival]:
    """Every order of groups that the router can go through, whatever fails on the way."""
    found: dict[str, Arrival] = {}
    todo: list[_State] = [((Arrival(name.group, 0, None),), frozenset())]
    seen = set(todo)
    while todo:
        (here, *rest), tried = todo.pop()
        if here.group not in found or here.depth < found[here.group].depth:
            found[here.group] = here
        tried |= {here.group}
        for too_long in (False, True) if overflow else (False,):
            follow = _next(config, name, here, overflow=too_long)
            state = (tuple(a for a in (*follow, *rest) if a.group not in tried), tried)
            if state[0] and state not in seen:
                seen.add(state)
                todo.append(state)
        if len(seen) > _MOST_STATES:
            return _closure(config, name)
    return found


def _closure(config: Config, name: Name) -> dict[str, Arrival]:
    """All that the entries connect: never less than the router's ways, perhaps more."""
    found = {name.group: Arrival(name.group, 0, None)}
    queue = deque(found.values())
    while queue:
        here = queue.popleft()
        for overflow in (False, True):
            for arrival in _next(config, name, here, overflow=overflow):
                if arrival.group not in found:
                    found[arrival.group] = arrival
                    queue.append(arrival)
    return found


def _next(config: Config, name: Name, here: Arrival, *, overflow: bool) -> Iterator[Arrival]:
    """The groups that follow one that failed, or (overflow) whose window the prompt exceeds."""
    if not name.fallbacks or here.depth == config.max_fallbacks:
        return
    block = "context_window_fallbacks" if overflow else "fallbacks"
    lists: Mapping[str, tuple[str, ...]] = getattr(config, block)
    keys = (name.name, here.group) if here.depth == 0 else (here.group,)
    key = next((k for k in keys if k in lists), None)
    path: Path = ("router_settings", "default_fallbacks")
    targets = () if overflow else config.default_fallbacks
    if key is not None:
        path, targets = ("router_settings", block, list(lists).index(key), key), lists[key]
    for i, target in enumerate(targets):
        if target in config.tiers:  # one that does not exist is another rule's
            yield Arrival(target, here.depth + 1, (*path, i))


def _reach(
    config: Config,
    name: Name,
    arrival: Arrival,
    member: Deployment,
    *,
    members: tuple[Deployment, ...],
    guarded: frozenset[Upstream],
) -> Reach:
    tier = config.tiers[name.group]
    lowest = min(m.order for m in members)
    level = [m for m in members if m.order == lowest]
    total = sum(m.weight or 1.0 for m in level)
    weighted = any(m.weight is not None for m in level)
    first = member.order == lowest
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
        overflow=is_confined(name, tier) and any(meets(member.upstream, g) for g in guarded),
        via=arrival.via,
        swaps=may_swap(
            member, group=config.tiers[member.group], name=tier, task=name.kind == "task"
        ),
    )


def _how(arrival: Arrival, *, first: bool, alone: bool) -> How:
    if arrival.depth > 0:
        return "context" if arrival.context else "fallback"
    if not first:
        return "order"
    return "direct" if alone else "share"
