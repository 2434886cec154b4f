"""`gateway routes`: who reaches what, as a table and as data (docs/routes-json.md)."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

from gateway.cli_files import Unusable, checked, complain
from gateway.cli_tables import print_json, print_table
from gateway.config.config import Config, Deployment, Upstream
from gateway.config.isolation import Bound, Reach, overflow_sums, reaches
from gateway.config.wording import bound_text, how_text

SHAPE = 1  # of the JSON; a later number may add keys, and only a larger one may take them away


def routes(args: argparse.Namespace) -> int:
    """Print the reach of every name; 1 if the file has errors."""
    try:
        config = checked(args)
    except Unusable as error:
        return complain(str(error))
    if args.json:
        print_json(as_data(config))
        return 0
    table = reaches(config)
    heads = ("name", "tier", "upstream", "how", "bound")
    print_table(heads, [_row(reach) for reach in table], quiet=2)
    print()
    print("\n".join(overflow_lines(config, table)))
    return 0


def _row(reach: Reach) -> tuple[str, ...]:
    bound = bound_text(reach.bound)
    return (
        reach.name,
        reach.tier,
        f"{reach.upstream} (may swap)" if reach.swaps else str(reach.upstream),
        how_text(reach) + (" (by grant)" if reach.tier == "burst" else ""),
        f"bounded overflow: {bound}" if reach.overflow else bound,
    )


def overflow_lines(config: Config, table: Sequence[Reach]) -> list[str]:
    """The sum of bounded overflows for each interactive upstream, in words."""
    sums = overflow_sums(config, table)
    if not sums:
        return ["no overflow: auxiliary, background and tasks reach no interactive upstream"]
    return [_sum_line(config, upstream, members) for upstream, members in sums.items()]


def _sum_line(config: Config, upstream: Upstream, members: tuple[Deployment, ...]) -> str:
    parts = [f"{d.group} ({bound_text(_bound(d))})" for d in members]
    return (
        f"overflow to interactive {upstream}: {_parallel(members)} of at most "
        f"{config.overflow_max_parallel} parallel: {', '.join(parts)}"
    )


def _parallel(members: Sequence[Deployment]) -> int:
    return sum(d.max_parallel_requests or 0 for d in members)


def _bound(d: Deployment) -> Bound:
    return Bound(rpm=d.rpm, tpm=d.tpm, max_parallel_requests=d.max_parallel_requests)


def as_data(config: Config) -> dict[str, Any]:
    """The routes, the deployments and the overflow sums; of keys only the variables' names."""
    table = reaches(config)
    return {
        "shape": SHAPE,
        "file": config.path,
        "config": str(config.revision),
        "drain_s": config.drain_s,
        "routes": [_route_data(reach) for reach in table],
        "deployments": [_deployment_data(config, d, table) for d in config.deployments],
        "overflow": [
            {
                "upstream": _upstream_data(upstream),
                "parallel": _parallel(members),
                "limit": config.overflow_max_parallel,
                "deployments": [d.id for d in members],
            }
            for upstream, members in overflow_sums(config, table).items()
        ],
    }


def _route_data(reach: Reach) -> dict[str, Any]:
    bound = reach.bound or Bound()
    return {
        "name": reach.name,
        "kind": reach.kind,
        "tier": reach.tier,
        "upstream": _upstream_data(reach.upstream),
        "deployment": reach.deployment,
        "group": reach.group,
        "how": reach.how,
        "depth": reach.depth,
        "share": None if reach.share is None else round(reach.share, 6),
        "rpm": bound.rpm,
        "tpm": bound.tpm,
        "max_parallel_requests": bound.max_parallel_requests,
        "overflow": reach.overflow,
        "may_swap": reach.swaps,
    }


def _deployment_data(config: Config, d: Deployment, table: Sequence[Reach]) -> dict[str, Any]:
    return {
        "id": d.id,
        "group": d.group,
        "tier": config.tiers[d.group],
        "names": [
            {"name": r.name, "kind": r.kind, "tier": r.tier, "how": r.how, "depth": r.depth}
            for r in table
            if r.deployment == d.id
        ],
        "upstream": _upstream_data(d.upstream),
        "api_base": d.api_base,
        "keyed": d.key_variable is not None or d.api_key is not None,
        "key_variable": d.key_variable,
        "line": d.place.line,
        "column": d.place.column,
        "provider": d.provider,
        "engine": d.engine,
        "served_name": d.served_name,
        "mode": d.mode,
        "lane": d.lane,
        "relays": sorted(d.relays),
        "max_input_tokens": d.max_input_tokens,
        "max_output_tokens": d.max_output_tokens,
        "weight": d.weight,
        "order": d.order,
        "rpm": d.rpm,
        "tpm": d.tpm,
        "max_parallel_requests": d.max_parallel_requests,
        "slot": d.slot,
        "recipe": d.recipe,
        "variant": d.variant,
    }


def _upstream_data(upstream: Upstream) -> dict[str, Any]:
    """Port 0 is a provider's own address, which the file does not name: null. So is a slot's."""
    if upstream.slot:
        return {"host": None, "port": None, "slot": upstream.slot, "recipe": upstream.recipe}
    return {"host": upstream.host, "port": upstream.port or None}
