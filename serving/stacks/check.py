"""Every problem of compose files, alone, together, and against the routing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from common.problems import Problem, in_order
from serving.stacks.compose import Stack
from serving.stacks.draft import draft_profile
from serving.stacks.part import Part, parts
from serving.stacks.routing import Routing
from serving.stacks.rules import gpu, health, images, network, routed, settings, storage, together

_ALONE = (
    *gpu.RULES,
    *network.RULES,
    *images.RULES,
    *storage.RULES,
    *settings.RULES,
    *health.RULES,
    draft_profile,
)
_TOGETHER = (
    together.shared_gpus,
    together.shared_ports,
    together.shared_caches,
    together.dependents,
)


def check(
    stacks: Sequence[Stack],
    routing: Routing | None = None,
    *,
    variables: Mapping[str, str] | None = None,
    production: bool = False,
) -> tuple[Problem, ...]:
    """Every problem of stacks that stand on one host; `variables` are the gateway's own.

    With `production` every image needs a digest, as in a file with `x-production: true`.
    """
    found = [p for stack in stacks for p in stack.problems]
    all_parts = [part for stack in stacks for part in parts(stack, production=production)]
    found += _rules(all_parts, routing)
    if routing is not None:
        found += routed.held_against(all_parts, routing, variables or {})
    return in_order(found)


def _rules(all_parts: Sequence[Part], routing: Routing | None) -> Iterator[Problem]:
    for part in all_parts:
        known = replace(part, drain_s=routing.drain_s) if routing and part.gateway else part
        for rule in _ALONE:
            yield from rule(known)
    for compare in _TOGETHER:
        yield from compare(all_parts)
