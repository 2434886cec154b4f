"""The computed reach against a brute-force walk of the router itself."""

from __future__ import annotations

from hypothesis import given, settings

from gateway.config.config import Config
from gateway.config.isolation import reaches
from tests.isolation.build import problems
from tests.isolation.strategies import configs, places, swaps, tier_of
from tests.isolation.walk import walk

OVERFLOW_CODES = {
    *("unbounded-overflow", "overflow-not-own", "overflow-sum"),
    *("task-on-interactive", "swap-interactive"),
}


@settings(max_examples=150, deadline=None)
@given(configs())
def test_whatever_the_router_can_reach_is_in_the_table_and_the_reverse(made: Config) -> None:
    can = walk(made, overflow=True)

    table = reaches(made)

    assert {(r.name, r.deployment) for r in table} == set(can)
    assert len(table) == len(can), "each name and deployment once"


@settings(max_examples=150, deadline=None)
@given(configs())
def test_how_and_depth_are_those_of_the_router_itself(made: Config) -> None:
    plain, either = walk(made, overflow=False), walk(made, overflow=True)

    table = reaches(made)

    for reach in table:
        key = (reach.name, reach.deployment)
        assert (reach.how == "context") == (key not in plain)
        assert reach.depth == (plain[key] if key in plain else either[key])


@settings(max_examples=150, deadline=None)
@given(configs())
def test_check_finds_an_unbounded_overflow_exactly_where_the_router_can_take_one(
    made: Config,
) -> None:
    breach = _breaches(made)

    found = {p.code for p in problems(made)} & OVERFLOW_CODES

    assert bool(found) == breach


def _breaches(made: Config) -> bool:
    """Design section 4, spelled out over what the router was seen to do.

    A background, auxiliary or task name is where interactive names are served through a deployment
    that lacks a cap or that interactive names use, or all such caps in one place are too many; or
    it may swap a slot away from another recipe that interactive names use.
    """
    reached = walk(made, overflow=True)
    by_id = {d.id: d for d in made.deployments}
    own = [d for d in made.deployments if made.tiers[d.group] == "interactive"]
    guarded = frozenset[str]().union(*(places(d) for d in own))
    people = {d for name, d in reached if tier_of(name, made) == "interactive"}
    others = [
        (name, by_id[d])
        for name, d in reached
        if tier_of(name, made) in ("auxiliary", "background", "task")
    ]
    confined = {d.id: d for _, d in others if places(d) & guarded}
    if any(made.tiers[pin.group] == "interactive" for pin in made.pins.values()):
        return True
    if confined.keys() & people:
        return True
    if any(None in (d.rpm, d.max_parallel_requests) for d in confined.values()):
        return True
    if any(
        swaps(d, name, made) and any(p.slot == d.slot and p.recipe != d.recipe for p in own)
        for name, d in others
    ):
        return True
    return any(
        sum(d.max_parallel_requests or 0 for d in confined.values() if place in places(d))
        > made.overflow_max_parallel
        for place in guarded
    )
