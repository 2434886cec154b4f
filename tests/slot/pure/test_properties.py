"""What holds whatever happens: callers, crashes, slow stops, failed starts, restarts, clocks.

The world asserts at every step: no start while an engine is there, no load cut short but by force,
a lease only on the engine that serves, residency for a model that was waited for, no stream cut
without its lease saying so, nobody in the line beyond the maximum, each ask answered once.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from serving.slot.state import Rules
from tests.slot.pure.world import Model, World

RECIPES = ("a", "b", "c")
RULES = Rules(
    max_wait_s=90.0,
    max_waiting=6,
    min_residency_s=4.0,
    promised_most_s=8.0,
    drain_s=12.0,
    stop_grace_s=5.0,
    retry_first_s=3.0,
    retry_most_s=20.0,
    proven_s=10.0,
    lease_s=30.0,
    adopted_grace_s=11.0,
    unknown_load_s=5.0,
)

SECONDS = st.sampled_from([0.0, 0.1, 0.5, 1.0, 3.0, 7.0, 15.0, 40.0])
MODEL = st.builds(
    Model,
    load_s=st.sampled_from([0.5, 3.0, 9.0, 25.0]),
    stop_s=st.sampled_from([0.0, 0.5, 4.0, 8.0]),
    ignores_stop=st.booleans(),
    fails=st.lists(st.booleans(), max_size=3),
    dies_after_s=st.sampled_from([None, None, None, 2.0, 30.0]),
)
ASK = st.tuples(
    st.just("ask"),
    st.sampled_from([*RECIPES, *RECIPES, "active"]),
    st.sampled_from([0.0, 2.0, 20.0, 600.0, 600.0]),  # wait_s
    st.booleans() | st.just(True),  # swap
    st.sampled_from([0.0, 1.0, 5.0, 30.0]),  # runs_s
)
HAPPENS = st.one_of(
    ASK,
    ASK,
    ASK,
    st.tuples(st.just("leave"), st.integers(0, 40)),
    st.tuples(st.just("crash")),
    st.tuples(
        st.just("die"),
        st.sampled_from(["idle", "before writing", "before acting"]),
        st.sampled_from([0.1, 5.0, 60.0]),
    ),
    st.tuples(st.just("clock"), st.sampled_from([-1e6, -40.0, -1.0, 1.0, 40.0, 1e6])),
)
OPERATES = st.one_of(
    st.tuples(st.just("up"), st.sampled_from(RECIPES), st.booleans()),
    st.tuples(st.just("down"), st.booleans()),
)
CALM = st.lists(st.tuples(SECONDS, ASK), min_size=20, max_size=60)
WILD = st.lists(st.tuples(SECONDS, HAPPENS), min_size=20, max_size=60)
OPERATED = st.lists(st.tuples(SECONDS, HAPPENS | OPERATES), min_size=20, max_size=60)
MODELS = st.fixed_dictionaries(dict.fromkeys(RECIPES, MODEL))

# The longest turn of one recipe: its load, its residency, its drain, its stop and its kill. The
# drain may begin anew once, when one who waited for the holder before came back to the line's head.
LOAD_S, KILLED_S = 25.0, 8.0 + 0.2
TURN_S = LOAD_S + RULES.promised_most_s + 2 * RULES.drain_s + RULES.stop_grace_s + KILLED_S


def play(world: World, script: list[tuple[float, tuple[Any, ...]]]) -> None:
    for pause_s, happening in script:
        world.run(pause_s)
        world.happen(*happening)
    world.run(RULES.max_wait_s + 3 * TURN_S)


def assert_all_is_over(world: World) -> None:
    callers = world.callers.values()
    assert all(caller.answered for caller in callers)
    assert all(caller.ended for caller in callers if caller.granted_at is not None)
    assert not world.slot.leases
    assert not world.slot.waiters
    assert world.slot.phase in ("stopped", "ready", "failed", "starting", "stopping")


@settings(max_examples=60, deadline=None)
@given(MODELS, WILD)
def test_whatever_happens_one_engine_runs_and_everyone_is_answered(
    models: dict[str, Model], script: list[tuple[float, tuple[Any, ...]]]
) -> None:
    world = World(RULES, 1, **models)

    play(world, script)

    assert_all_is_over(world)


@settings(max_examples=60, deadline=None)
@given(MODELS, OPERATED)
def test_so_it_is_with_an_operator(
    models: dict[str, Model], script: list[tuple[float, tuple[Any, ...]]]
) -> None:
    world = World(RULES, 1, **models)

    play(world, script)

    assert_all_is_over(world)


@settings(max_examples=60, deadline=None)
@given(MODELS, CALM)
def test_nobody_waits_beyond_the_maximum(
    models: dict[str, Model], script: list[tuple[float, tuple[Any, ...]]]
) -> None:
    world = World(RULES, 1, **models)

    play(world, script)

    assert world.max_wait_s <= RULES.max_wait_s + 0.01
    assert_all_is_over(world)


@settings(max_examples=60, deadline=None)
@given(MODELS, CALM)
def test_without_a_maximum_everyone_is_answered_within_one_turn_of_each_recipe(
    models: dict[str, Model], script: list[tuple[float, tuple[Any, ...]]]
) -> None:
    world = World(replace(RULES, max_wait_s=1e6, max_waiting=1000), 1, **models)
    asked = [(s, (*what[:2], 1e6, *what[3:])) for s, what in script]

    play(world, asked)

    assert world.max_wait_s <= len(RECIPES) * TURN_S
    assert_all_is_over(world)


STREAMS = st.tuples(
    MODELS,
    st.sampled_from([2.0, 5.0]),  # a request each so many seconds
    st.floats(0.0, 40.0),  # when the third model is asked for
    st.sampled_from([0.2, 3.0, 40.0]),  # how long each runs
)


def stream_for_a_and_b(world: World, each_s: float, runs_s: float) -> None:
    def ask_again(recipe: str) -> None:
        world.ask(recipe, wait_s=1e6, runs_s=runs_s)
        world.later(each_s, lambda: ask_again(recipe))

    ask_again("a")
    ask_again("b")


@settings(max_examples=25, deadline=None)
@given(STREAMS)
def test_a_stream_of_requests_for_two_models_does_not_starve_the_third(
    drawn: tuple[dict[str, Model], float, float, float],
) -> None:
    models, each_s, asks_after_s, runs_s = drawn
    models["c"].fails.clear()
    world = World(replace(RULES, max_wait_s=1e6, max_waiting=1000), 1, **models)
    stream_for_a_and_b(world, each_s, runs_s)
    world.run(asks_after_s)

    third = world.ask("c", wait_s=1e6)
    world.run(len(RECIPES) * TURN_S)

    assert third.granted_at is not None


@settings(max_examples=25, deadline=None)
@given(STREAMS)
def test_a_line_that_others_keep_full_does_not_keep_the_third_from_being_loaded(
    drawn: tuple[dict[str, Model], float, float, float],
) -> None:
    models, each_s, asks_after_s, runs_s = drawn
    world = World(replace(RULES, max_wait_s=1e6, max_waiting=2), 1, **models)
    stream_for_a_and_b(world, each_s, runs_s)
    world.run(asks_after_s)

    third, asked_at = world.ask("c", wait_s=1e6), world.now
    while "c" not in world.starts and world.now < asked_at + len(RECIPES) * TURN_S:
        world.run(1.0)
        if third.refusal and world.now >= third.asked_at + third.refusal.retry_after_s:
            third = world.ask("c", wait_s=1e6)

    assert "c" in world.starts
