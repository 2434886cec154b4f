"""Random Configs: small, but with every way in which names, groups and upstreams can meet."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from gateway.config.config import Config, Deployment, Pin, TierName
from tests.isolation.build import config, member

UPSTREAMS = ("gpu-1:8000", "gpu-2:8000", "gpu-2:8001", "cloud:443")
SLOTS = ("gpu0/r1", "gpu0/r2", "gpu0/active", "gpu1/r1")
TIERS: tuple[TierName, ...] = ("interactive", "auxiliary", "background", "burst")


@st.composite
def configs(draw: st.DrawFn, max_groups: int = 5) -> Config:
    """A Config that may break any isolation rule, but is whole in every other way."""
    groups = [f"g{n}" for n in range(draw(st.integers(1, max_groups)))]
    members = [m for group in groups for m in draw(_members(group))]
    names = st.sampled_from(groups)
    aliases = draw(st.dictionaries(st.sampled_from(["a0", "a1"]), names, max_size=2))
    pins = {
        task: Pin(task=task, group=draw(names), fallbacks=draw(st.booleans()))
        for task in draw(st.sets(st.sampled_from(["t0", "t1"])))
    }
    targets = st.lists(names, unique=True, max_size=3).map(tuple)
    keys = st.sampled_from([*groups, *aliases])
    return config(
        *members,
        tiers={group: draw(st.sampled_from(TIERS)) for group in groups},
        aliases=aliases,
        pins=pins,
        fallbacks=draw(st.dictionaries(keys, targets, max_size=4)),
        context_window_fallbacks=draw(st.dictionaries(keys, targets, max_size=2)),
        default_fallbacks=draw(st.one_of(st.just(()), targets)),
        max_fallbacks=draw(st.sampled_from([None, None, 0, 1, 2])),
        overflow_max_parallel=draw(st.integers(1, 3)),
    )


@st.composite
def _members(draw: st.DrawFn, group: str) -> list[Deployment]:
    ats = draw(st.lists(st.sampled_from((*UPSTREAMS, *SLOTS)), min_size=1, max_size=3))
    weighted = draw(st.booleans())
    return [member(group, at, n, **draw(_settings(weighted, at))) for n, at in enumerate(ats)]


def places(d: Deployment) -> frozenset[str]:
    """Where its work may run: the active recipe is any of the file's, or one that is not in it."""
    if d.recipe == "active":
        return frozenset(f"{d.slot}/{recipe}" for recipe in ("r1", "r2", "another"))
    return frozenset({str(d.upstream)})


def swaps(d: Deployment, name: str, made: Config) -> bool:
    """True if the name may have the recipe loaded: docs/slots-in-the-file.md, spelled out."""
    by_default = made.tiers[d.group] in ("interactive", "auxiliary") and (
        tier_of(name, made) in ("interactive", "auxiliary")
    )
    if d.slot is None or d.recipe == "active":
        return False
    return by_default if d.swap is None else d.swap


def tier_of(name: str, made: Config) -> str:
    """The tier of a name as a client sends it; `task` for a task."""
    group = made.aliases[name].group if name in made.aliases else name
    return made.tiers.get(group, "task")


@st.composite
def _settings(draw: st.DrawFn, weighted: bool, at: str) -> dict[str, Any]:
    swap = [None] if "/" not in at else [None, False] if "active" in at else [None, False, True]
    bound = draw(st.sampled_from(["none", "rpm", "parallel", "both", "both"]))
    return {
        "weight": draw(st.sampled_from([1.0, 10.0])) if weighted else None,
        "swap": draw(st.sampled_from(swap)),
        "order": draw(st.sampled_from([1, 1, 2])),
        "rpm": 4 if bound in ("rpm", "both") else None,
        "max_parallel_requests": draw(st.integers(1, 2)) if bound in ("parallel", "both") else None,
    }
