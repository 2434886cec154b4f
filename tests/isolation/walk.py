"""The router, walked by brute force: every outcome at every step that a request can take.

At each stage every candidate may serve, all may fail (or be at their caps, or rest: the relay goes
on in the same way), or the prompt may be too long. What was reached is collected with the hops that
the router itself counts.
"""

from __future__ import annotations

from random import Random

from gateway.config.config import Config, Dialect
from gateway.routing.choose import candidates
from gateway.routing.facts import RequestFacts
from gateway.routing.health import Health
from gateway.routing.table import Route, RouteTable, Stage, after, build

Reached = dict[tuple[str, str], int]  # (name, deployment id) -> fewest hops


def walk(config: Config, *, overflow: bool, dialects: tuple[Dialect, ...] = ("chat",)) -> Reached:
    """What requests for every name reach; without `overflow` no prompt is ever too long."""
    table = build(config)
    reached: Reached = {}
    for route in table.routes.values():
        for dialect in dialects:
            _walk_route(table, route, RequestFacts(dialect=dialect), overflow, reached)
    return reached


def _walk_route(
    table: RouteTable, route: Route, facts: RequestFacts, overflow: bool, reached: Reached
) -> None:
    start = (Stage(route.group),)
    todo: list[tuple[tuple[Stage, ...], frozenset[str]]] = [(start, frozenset())]
    seen = set(todo)
    while todo:
        pending, tried = todo.pop()
        stage, rest = pending[0], pending[1:]
        _serve(table, route, stage, facts, reached)
        ways = [after(table, route, stage, overflow=False) + rest]
        if overflow:
            ways.append(after(table, route, stage, overflow=True) + rest)
        tried |= {stage.group}
        for way in ways:
            left = tuple(s for s in way if s.group not in tried and s.group in table.groups)
            if left and (left, tried) not in seen:
                seen.add((left, tried))
                todo.append((left, tried))


def _serve(
    table: RouteTable, route: Route, stage: Stage, facts: RequestFacts, reached: Reached
) -> None:
    decision = candidates(
        table.groups[stage.group], facts, health=Health(), now=0.0, random=Random(0), bridge=True
    )
    for candidate in decision.candidates:
        key = (route.name, candidate.deployment.id)
        reached[key] = min(stage.hops, reached.get(key, stage.hops))
