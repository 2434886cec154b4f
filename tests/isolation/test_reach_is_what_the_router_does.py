"""The computed reach against a brute-force walk of the router itself."""

from __future__ import annotations

from hypothesis import given, settings

from gateway.config.config import Config
from gateway.config.isolation import reaches
from tests.isolation.build import problems
from tests.isolation.strategies import configs
from tests.isolation.walk import walk

OVERFLOW_CODES = {"unbounded-overflow", "overflow-not-own", "overflow-sum", "task-on-interactive"}


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

    A background, auxiliary or task name is on an interactive upstream through a deployment that
    lacks a cap or that interactive names use, or all such caps on one upstream are too many.
    """
    reached = walk(made, overflow=True)
    by_id = {d.id: d for d in made.deployments}
    tier_of = {**made.tiers, **{a.name: made.tiers[a.group] for a in made.aliases.values()}}
    guarded = {d.upstream for d in made.deployments if made.tiers[d.group] == "interactive"}
    people = {d for name, d in reached if tier_of.get(name) == "interactive"}
    confined = {
        d
        for name, d in reached
        if tier_of.get(name, "task") in ("auxiliary", "background", "task")
        and by_id[d].upstream in guarded
    }
    if any(made.tiers[pin.group] == "interactive" for pin in made.pins.values()):
        return True
    if confined & people:
        return True
    if any(None in (by_id[d].rpm, by_id[d].max_parallel_requests) for d in confined):
        return True
    return any(
        sum(by_id[d].max_parallel_requests or 0 for d in confined if by_id[d].upstream == upstream)
        > made.overflow_max_parallel
        for upstream in guarded
    )
