"""`gateway explain`: the decision for one request, without a call.

The router itself decides, with every deployment well and free: what is shown is what a first
request after the start would meet.
"""

from __future__ import annotations

import argparse
from collections.abc import Container, Iterator
from dataclasses import dataclass
from random import Random
from typing import Any

from gateway.bridge import is_there
from gateway.cli_files import Unusable, checked, complain
from gateway.cli_tables import print_json
from gateway.config.config import ACTIVE, Config, Deployment
from gateway.config.reach import Bound
from gateway.config.slot_rules import may_swap
from gateway.config.wording import bound_text
from gateway.errors import GatewayError
from gateway.keys import KeyRing
from gateway.routing.choose import candidates
from gateway.routing.facts import Candidate, RequestFacts
from gateway.routing.health import Health
from gateway.routing.table import (
    Group,
    Route,
    RouteTable,
    Stage,
    after,
    build,
    resolve,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One group on the request's way: who may serve there, and who not."""

    stage: Stage
    group: Group
    chosen: tuple[Candidate, ...]  # by order, then the larger share first
    left_out: tuple[tuple[Deployment, str], ...]


def explain(args: argparse.Namespace) -> int:
    """Print the decision; 1 if the name is unknown, the key may not use it, or nobody can serve."""
    try:
        config = checked(args)
        table = build(config)
        route = _route(config, table, args)
    except (Unusable, GatewayError) as error:
        return complain(str(error))
    facts = RequestFacts(dialect=args.dialect, prompt_tokens=args.prompt_tokens)
    found = tuple(steps(table, route, facts))
    if args.json:
        print_json(_data(config, route, found))
    else:
        print("\n".join([*_lines(route, found), *_if_too_long(table, route, found)]))
    return 0 if any(step.chosen for step in found) else 1


def _route(config: Config, table: RouteTable, args: argparse.Namespace) -> Route:
    opened: Container[str] = table.routes if args.key is None else _names(config, table, args.key)
    route = resolve(table, args.model, args.task, opened)
    if route.name not in opened:
        raise Unusable(f"key '{args.key}' does not open '{route.name}': the client gets a 403")
    return route


def _names(config: Config, table: RouteTable, name: str) -> Container[str]:
    """The names that a client key opens. Raises Unusable if there is no such key."""
    values = {key.name: key.key for key in config.client_keys}
    if config.master_key is not None:
        values["master"] = config.master_key
    if name not in values:
        known = ", ".join(values) or "none"
        raise Unusable(f"there is no client key named '{name}'; keys in the file: {known}")
    return KeyRing(config, table).who(None, values[name].encode()).names


def steps(table: RouteTable, route: Route, facts: RequestFacts) -> Iterator[Step]:
    """The groups in the order in which they are tried if every candidate fails."""
    bridge = is_there()
    chance = Random(0)  # noqa: S311 -- a draw among equals, sorted away below
    pending, tried = [Stage(route.group)], set[str]()
    while pending:
        stage = pending.pop(0)
        if stage.group in tried:
            continue
        tried.add(stage.group)
        group = table.groups[stage.group]
        decision = candidates(group, facts, health=Health(), now=0.0, random=chance, bridge=bridge)
        chosen = sorted(
            decision.candidates,
            key=lambda c: (c.deployment.order, -(c.deployment.weight or 1.0)),
        )
        # The draw is by chance; shown is the file's order, which the shares then explain.
        yield Step(stage=stage, group=group, chosen=tuple(chosen), left_out=decision.left_out)
        pending[:0] = after(table, route, stage, overflow=decision.too_long)


def _lines(route: Route, found: tuple[Step, ...]) -> Iterator[str]:
    yield f"{route.name}: {_kind(route)} ({route.tier})"
    for number, step in enumerate(found, 1):
        yield f"{number}. {step.group.name}{_how(step.stage)}; {_waits(step)}"
        for candidate in step.chosen:
            slot = _on_slot(route, step, candidate.deployment)
            yield f"   - {_who(candidate.deployment)}: {candidate.reason}{slot}"
        for deployment, reason in step.left_out:
            yield f"   x {_who(deployment)}: left out, {reason}"
    if not any(step.chosen for step in found):
        yield "nobody can serve this request: the client gets an error at once"
    elif not route.fallbacks:
        yield "no fallbacks: this task is pinned with `fallbacks: false`"
    elif len(found) == 1:
        yield "no fallbacks: if all of these fail, the client gets the error"


def _on_slot(route: Route, step: Step, d: Deployment) -> str:
    """What a slot means for it: nothing where it has none."""
    if d.slot is None:
        return ""
    if d.recipe == ACTIVE:
        return f"; what slot {d.slot} has loaded, which it never swaps"
    swaps = "may be loaded for it" if _swaps(route, step, d) else "only while it is loaded"
    return f"; recipe {d.recipe} on slot {d.slot}, {swaps}"


def _swaps(route: Route, step: Step, d: Deployment) -> bool:
    return may_swap(d, group=step.group.tier, name=route.tier, task=route.kind == "task")


def _kind(route: Route) -> str:
    match route.kind:
        case "task":
            return f"task pinned to group {route.group}"
        case "alias":
            return f"alias of group {route.group}"
        case "group":
            return "model group"


def _how(stage: Stage) -> str:
    if stage.hops == 0:
        return ""
    why = "if the prompt is too long" if stage.how == "context" else "fallback"
    return f" ({why}, hop {stage.hops})"


def _waits(step: Step) -> str:
    """What happens at its caps. A fallback group does not reject: the next one is tried."""
    rule = step.group.rule
    full = "429"
    if step.stage.hops or rule.on_saturation == "fallback":
        full = "the next group"
    if rule.max_wait_s <= 0 or rule.max_waiting <= 0:
        return f"at its caps: {full}"
    return f"at its caps waits {rule.max_wait_s:g} s, {rule.max_waiting} waiting, then {full}"


def _if_too_long(table: RouteTable, route: Route, found: tuple[Step, ...]) -> Iterator[str]:
    """Where a prompt goes that is too long for the asked group, unless the steps have told it."""
    start = Stage(route.group)
    longer = [stage.group for stage in after(table, route, start, overflow=True)]
    if longer and not any(step.stage.how == "context" for step in found):
        yield f"a prompt too long for {route.group} goes to {', '.join(longer)}"


def _who(d: Deployment) -> str:
    caps = bound_text(_bound(d))
    return f"{d.id} ({caps})" if caps else d.id


def _bound(d: Deployment) -> Bound:
    return Bound(rpm=d.rpm, tpm=d.tpm, max_parallel_requests=d.max_parallel_requests)


def _data(config: Config, route: Route, found: tuple[Step, ...]) -> dict[str, Any]:
    return {
        "file": config.path,
        "config": str(config.revision),
        "route": {
            "name": route.name,
            "kind": route.kind,
            "group": route.group,
            "tier": route.tier,
            "fallbacks": route.fallbacks,
        },
        "steps": [_step_data(route, step) for step in found],
    }


def _step_data(route: Route, step: Step) -> dict[str, Any]:
    return {
        "group": step.group.name,
        "tier": step.group.tier,
        "hops": step.stage.hops,
        "how": step.stage.how,
        "max_wait_s": step.group.rule.max_wait_s,
        "max_waiting": step.group.rule.max_waiting,
        "on_saturation": step.group.rule.on_saturation,
        "candidates": [
            {
                "deployment": c.deployment.id,
                "upstream": str(c.deployment.upstream),
                "reason": c.reason,
                "order": c.deployment.order,
                "may_swap": _swaps(route, step, c.deployment),
            }
            for c in step.chosen
        ],
        "left_out": [{"deployment": d.id, "reason": why} for d, why in step.left_out],
    }
