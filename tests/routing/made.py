"""Deployments, groups and tables made by hand, with only what routing looks at."""

from __future__ import annotations

from typing import Any

from common.problems import Place
from gateway.config.config import Config, Deployment, Revision, TierName, TierRule, Upstream
from gateway.routing.table import Group, RouteTable, build

RULE = TierRule(max_wait_s=10.0, max_waiting=64)


def deployment(name: str = "d", group: str = "g", **more: Any) -> Deployment:
    """A deployment that speaks chat."""
    settled: dict[str, Any] = {
        "id": name,
        "group": group,
        "place": Place("f.yaml", 1, 1),
        "provider": "hosted_vllm",
        "served_name": name,
        "mode": "chat",
        "upstream": Upstream(name, 8000),
        "api_base": f"http://{name}:8000/v1",
        "relays": frozenset({"chat"}),
    }
    return Deployment(**(settled | more))


def config(*deployments: Deployment, tier: TierName = "interactive", **more: Any) -> Config:
    """A checked file of these deployments, all groups in one tier."""
    names = {d.group for d in deployments}
    tiers: tuple[TierName, ...] = ("interactive", "auxiliary", "background", "burst")
    return Config(
        path="f.yaml",
        revision=Revision(sha256="0" * 64),
        deployments=deployments,
        tiers=dict.fromkeys(names, tier),
        tier_rules=dict.fromkeys(tiers, RULE),
        **more,
    )


def table(*deployments: Deployment, **more: Any) -> RouteTable:
    """The table of such a file."""
    return build(config(*deployments, **more))


def group(*members: Deployment, **more: Any) -> Group:
    """The only group of such a file."""
    (found,) = table(*members, **more).groups.values()
    return found
