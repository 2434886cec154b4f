"""Isolation: no background work on the upstreams that people wait on, unless bounded and shown.

`check` proves it over upstreams for every name a client can send, from what `reach.py` walks.
Each rule is a function with one code; docs/isolation.md says what each code means and how to mend.

    no-tier              a chat or completion group without a tier
    task-on-interactive  a task pinned to an interactive group
    unbounded-overflow   background work reaches an interactive upstream without both caps
    overflow-not-own     the same, through a deployment that interactive names use too
    overflow-sum         the bounded overflows of one upstream are too many together
    swap-interactive     background work may swap a slot away from people's recipe
    burst-reachable      the burst tier by anything but a fallback
    shared-upstream      (warning) names of different tiers on one upstream
    same-address         (warning, at start) two upstreams, one address: `overlaps.py`
    ...                  fallbacks and lanes: `fallback_rules.py`
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from common.problems import Problem, in_order
from gateway.config import fallback_rules
from gateway.config.config import Config, Deployment, Upstream
from gateway.config.fallback_rules import PlaceOf
from gateway.config.overlaps import resolved_overlaps
from gateway.config.reach import (
    Bound,
    Path,
    Reach,
    interactive_upstreams,
    is_confined,
    meets,
    reaches,
)

__all__ = [
    "Bound",
    "Path",
    "PlaceOf",
    "Reach",
    "check",
    "overflow_sums",
    "reaches",
    "resolved_overlaps",
]

LOOPBACK = "127.0.0.1"  # as every loopback name is normalised


def check(config: Config, place: PlaceOf) -> tuple[Problem, ...]:
    """Every breach of the isolation rules, in the order of the file.

    `place` gives the nearest known place of a YAML path.
    """
    if untiered := tuple(_no_tier(config)):
        return in_order(untiered)  # without tiers the other rules have nothing to compare
    table = reaches(config)
    return in_order(
        [
            *_tasks_on_interactive(config, place),
            *_overflows(config, table, place),
            *_overflow_sums(config, table),
            *_swaps(config, table),
            *_burst(config, place),
            *_shared_upstreams(config),
            *fallback_rules.check(config, place),
        ]
    )


def _no_tier(config: Config) -> Iterator[Problem]:
    for group, members in config.groups().items():
        if group not in config.tiers:
            yield Problem(
                members[0].place,
                "error",
                "no-tier",
                f"group '{group}' is in no tier; add it to one tier's models under "
                f"gateway_settings.tiers",
            )


def _tasks_on_interactive(config: Config, place: PlaceOf) -> Iterator[Problem]:
    for pin in config.pins.values():
        if config.tiers.get(pin.group) == "interactive":
            yield Problem(
                place(("gateway_settings", "task_pins", pin.task)),
                "error",
                "task-on-interactive",
                f"task '{pin.task}' is pinned to '{pin.group}', which is interactive: people wait "
                f"there; pin it to an auxiliary or background group",
            )


def _overflows(config: Config, table: tuple[Reach, ...], place: PlaceOf) -> Iterator[Problem]:
    """One problem for each way in that is not a bounded overflow, with all names that use it.

    1. The deployment serves interactive names as well: its caps cannot be the overflow's.
    2. The deployment is the background's own but lacks a cap.
    """
    tasks_told = {
        f"task/{p.task}" for p in config.pins.values() if _is_interactive(config, p.group)
    }
    people = {
        r.deployment for r in table if r.tier == "interactive" and r.kind != "task"
    }  # deployments that interactive names reach
    members = {d.id: d for d in config.deployments}
    breaches: dict[tuple[Path | None, str], list[Reach]] = {}
    for reach in table:
        told = reach.name in tasks_told and reach.depth == 0  # `task-on-interactive` says it
        bounded = reach.bound is not None and reach.bound.bounds_overflow
        if reach.overflow and not told and (reach.deployment in people or not bounded):
            breaches.setdefault((reach.via, reach.deployment), []).append(reach)
    for (via, deployment), found in breaches.items():
        member = members[deployment]
        at = place(fallback_rules.located(via, place)) if via else member.place
        if deployment in people:
            yield Problem(at, "error", "overflow-not-own", _not_own(member, found))
        else:
            yield Problem(at, "error", "unbounded-overflow", _unbounded(member, found))


def _is_interactive(config: Config, group: str) -> bool:
    return config.tiers.get(group) == "interactive"


def _not_own(member: Deployment, found: list[Reach]) -> str:
    way = "by fallback " if found[0].depth else ""
    return (
        f"{_who(found)} {way}interactive upstream {member.upstream} through group "
        f"'{member.group}', which interactive names use; give it a deployment of its own with rpm "
        f"and max_parallel_requests, or take this way out"
    )


def _unbounded(member: Deployment, found: list[Reach]) -> str:
    missing = [k for k in ("rpm", "max_parallel_requests") if getattr(member, k) is None]
    way = f"by fallback to '{member.group}' " if found[0].depth else ""
    return (
        f"{_who(found)} interactive upstream {member.upstream} {way}without a bound: set "
        f"{' and '.join(missing)} on this deployment ('{member.group}', {member.served_name})"
    )


def _who(found: list[Reach]) -> str:
    """The names, without repeats, as a subject: "background 'a' and auxiliary 'b' reach"."""
    labels = list(dict.fromkeys(f"{_label(r)} '{r.name}'" for r in found))
    shown = labels if len(labels) <= 4 else [*labels[:3], f"{len(labels) - 3} more"]
    verb = "reaches" if len(labels) == 1 else "reach"
    return f"{joined(shown)} {verb}"


def _label(reach: Reach) -> str:
    return "task" if reach.kind == "task" else reach.tier


def joined(words: Sequence[str]) -> str:
    """Words as a list in a sentence: "a, b and c"."""
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def overflow_sums(config: Config, table: Iterable[Reach]) -> dict[Upstream, tuple[Deployment, ...]]:
    """For each interactive upstream the background's bounded deployments on it, in file order."""
    ids = {r.deployment for r in table if r.overflow and r.bound and r.bound.bounds_overflow}
    guarded = interactive_upstreams(config)
    own = [d for d in config.deployments if d.id in ids]
    sums = {u: tuple(d for d in own if meets(d.upstream, u)) for u in sorted(guarded)}
    return {upstream: found for upstream, found in sums.items() if found}


def _overflow_sums(config: Config, table: tuple[Reach, ...]) -> Iterator[Problem]:
    for upstream, found in overflow_sums(config, table).items():
        total = sum(d.max_parallel_requests or 0 for d in found)
        if total > config.overflow_max_parallel:
            groups = joined(list(dict.fromkeys(f"'{d.group}'" for d in found)))
            yield Problem(
                found[-1].place,
                "error",
                "overflow-sum",
                f"overflow of {groups} to interactive upstream {upstream} adds up to {total} "
                f"parallel requests, above {config.overflow_max_parallel}; lower "
                f"max_parallel_requests, or raise gateway_settings.overflow_max_parallel",
            )


def _swaps(config: Config, table: tuple[Reach, ...]) -> Iterator[Problem]:
    """One problem for each deployment by which other work takes a slot from people's recipe."""
    people = [d for d in config.deployments if d.slot and _is_interactive(config, d.group)]
    breaches: dict[str, list[Reach]] = {}
    for reach in table:
        on_it = (d.upstream for d in people if d.slot == reach.upstream.slot)
        takes = reach.swaps and any(upstream != reach.upstream for upstream in on_it)
        if takes and is_confined(reach, reach.tier):
            breaches.setdefault(reach.deployment, []).append(reach)
    for member in config.deployments:
        if found := breaches.get(member.id):
            yield Problem(member.place, "error", "swap-interactive", _taking(member, found, people))


def _taking(member: Deployment, found: list[Reach], people: list[Deployment]) -> str:
    labels = joined(list(dict.fromkeys(f"{_label(r)} '{r.name}'" for r in found)))
    taken = (d for d in people if d.slot == member.slot and d.upstream != member.upstream)
    from_whom = joined(list(dict.fromkeys(f"'{d.group}' ({d.upstream})" for d in taken)))
    return (
        f"{labels} may swap slot {member.slot} to {member.recipe}, away from interactive "
        f"{from_whom}; set swap: false on this deployment ('{member.group}', {member.upstream}), "
        f"or serve it elsewhere"
    )


def _burst(config: Config, place: PlaceOf) -> Iterator[Problem]:
    """Burst is reached by fallback only: no alias, no pin, no member of another group."""
    burst = {group for group, tier in config.tiers.items() if tier == "burst"}
    for alias in config.aliases.values():
        if alias.group in burst:
            yield Problem(
                place(("router_settings", "model_group_alias", alias.name)),
                "error",
                "burst-reachable",
                f"alias '{alias.name}' leads to burst group '{alias.group}'; burst is reached by "
                f"fallback only: name '{alias.group}' in a group's fallbacks instead",
            )
    for pin in config.pins.values():
        if pin.group in burst:
            yield Problem(
                place(("gateway_settings", "task_pins", pin.task)),
                "error",
                "burst-reachable",
                f"task '{pin.task}' is pinned to burst group '{pin.group}'; pin it to another "
                f"group and let that one fall back to '{pin.group}'",
            )
    yield from _burst_members(config, burst)


def _burst_members(config: Config, burst: set[str]) -> Iterator[Problem]:
    """The burst model as a member of another group.

    On this machine itself it is only a stand-in, such as that of the embedded node, and
    `shared-upstream` says enough.
    """
    served = {(d.upstream, d.served_name): d.group for d in config.deployments if d.group in burst}
    for d in config.deployments:
        group = served.get((d.upstream, d.served_name))
        if group is not None and d.group not in burst and d.upstream.host != LOOPBACK:
            yield Problem(
                d.place,
                "error",
                "burst-reachable",
                f"this member of '{d.group}' is the burst model {d.served_name} at {d.upstream} "
                f"(group '{group}'); burst is reached by fallback only: remove the member and let "
                f"'{d.group}' fall back to '{group}'",
            )


def _shared_upstreams(config: Config) -> Iterator[Problem]:
    by_upstream: dict[Upstream, list[Deployment]] = {}
    there = dict.fromkeys(d.upstream for d in config.deployments)
    for d in config.deployments:
        for upstream in (u for u in there if meets(d.upstream, u)):
            by_upstream.setdefault(upstream, []).append(d)
    for upstream, found in by_upstream.items():
        tiers: dict[str, list[str]] = {}
        for d in found:
            tiers.setdefault(config.tiers[d.group], []).append(f"'{d.group}'")
        if len(tiers) > 1:
            other = next(d for d in found if config.tiers[d.group] != config.tiers[found[0].group])
            named = [f"{tier} {joined(list(dict.fromkeys(g)))}" for tier, g in tiers.items()]
            yield Problem(
                other.place,
                "warning",
                "shared-upstream",
                f"{joined(named)} share upstream {upstream}: work of one tier can slow the other",
            )
