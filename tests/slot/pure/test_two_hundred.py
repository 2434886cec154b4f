"""200 random requests for three models on one slot: none lost, few swaps, a bounded wait.

    pytest -s tests/slot/pure/test_two_hundred.py

prints what it measured.
"""

from __future__ import annotations

from random import Random

import pytest

from serving.slot.state import Rules
from tests.slot.pure.world import Caller, Model, World

# As shipped, and the real times of a box: half a minute to load, some seconds to answer.
RULES = Rules(drain_s=60.0)
MODELS = {"a": (30.0, 2.0), "b": (20.0, 1.0), "c": (45.0, 4.0)}
LONGEST_RUN_S = 20.0
# Each of the other two once (load, residency, the longest run, stop), and its own load.
BOUND_S = sum(
    load_s + RULES.min_residency_s + LONGEST_RUN_S + stop_s for load_s, stop_s in MODELS.values()
)


def come(world: World, random: Random, wait_s: float) -> list[Caller]:
    """200 callers in 20 minutes; one that is refused returns when it was told to."""
    callers: list[Caller] = []
    served: list[Caller] = []

    def ask(recipe: str, runs_s: float) -> None:
        caller = world.ask(recipe, wait_s=wait_s, runs_s=runs_s)
        callers.append(caller)
        world.later(wait_s + 0.01, lambda: follow(caller))

    def follow(caller: Caller) -> None:
        if caller.refusal is None:
            served.append(caller)
            return
        world.later(caller.refusal.retry_after_s, lambda: ask(caller.recipe, caller.runs_s))

    for _ in range(200):
        recipe, runs_s = random.choice("aabc"), random.uniform(0.5, LONGEST_RUN_S)
        world.later(random.uniform(0.0, 1200.0), lambda r=recipe, s=runs_s: ask(r, s))  # type: ignore[misc]
    world.run(4000.0)
    return served


@pytest.mark.parametrize("seed", range(3))
def test_all_are_served_within_one_turn_of_each_model(seed: int) -> None:
    models = {
        name: Model(load_s=load_s, stop_s=stop_s) for name, (load_s, stop_s) in MODELS.items()
    }
    world = World(RULES, seed, **models)

    served = come(world, Random(seed), 600.0)

    waits = sorted(c.granted_at - c.asked_at for c in served if c.granted_at is not None)
    print(  # noqa: T201 -- the closing note quotes it
        f"\n200 requests, three models: {len(waits)} served, {len(world.starts)} loads,"
        f" wait median {waits[100]:.0f} s, p95 {waits[190]:.0f} s, longest {waits[-1]:.0f} s"
        f" (bound {BOUND_S:.0f} s)"
    )
    assert len(waits) == 200
    assert {c.ended for c in served} == {"given_back"}
    assert len(world.starts) <= 45
    assert waits[-1] <= BOUND_S


@pytest.mark.parametrize("seed", range(3))
def test_callers_who_do_not_wait_are_all_served_by_returning_when_told(seed: int) -> None:
    models = {
        name: Model(load_s=load_s, stop_s=stop_s) for name, (load_s, stop_s) in MODELS.items()
    }
    world = World(RULES, seed, **models)

    served = come(world, Random(seed), 0.0)

    asks = len(world.callers)
    print(f"\n200 requests that do not wait: {asks} asks, {len(world.starts)} loads")  # noqa: T201 -- as above
    assert len(served) == 200
    assert asks < 1000
