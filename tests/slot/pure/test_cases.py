"""The reported faults of swapping models, as far as the pure slot can show them."""

from __future__ import annotations

import pytest

from serving.slot.events import Kill, Start, Stop
from serving.slot.state import Rules
from tests.slot.pure.world import Caller, Model, World

RULES = Rules(
    min_residency_s=3.0,
    drain_s=20.0,
    stop_grace_s=10.0,
    retry_first_s=5.0,
    retry_most_s=40.0,
    proven_s=30.0,
)


def loaded(recipe: str = "a", rules: Rules = RULES, **models: Model) -> World:
    """A world in which one recipe is loaded and its residency is over."""
    world = World(rules, 1, **models)
    world.ask(recipe, runs_s=0.1)
    world.run(60.0)
    assert world.slot.phase == "ready"
    assert world.slot.holder == recipe
    world.effects.clear()
    return world


def code(caller: Caller) -> str | None:
    return caller.refusal.code if caller.refusal else None


def test_two_requests_for_two_models_do_not_break_each_other() -> None:
    """SWP-01."""
    world = loaded(a=Model(), b=Model())

    first = world.ask("a", runs_s=3.0)
    other = world.ask("b")
    again = world.ask("a")
    world.run(60.0)

    assert [c.ended for c in (first, other, again)] == ["given_back"] * 3
    assert world.starts == ["a", "b", "a"]


def test_five_and_five_at_the_same_instant_need_two_more_loads() -> None:
    """SWP-02."""
    world = loaded(a=Model(load_s=2.0), b=Model(load_s=2.0))

    callers = [world.ask(recipe) for recipe in ("a", "b") * 5]
    world.run(60.0)

    assert [c.ended for c in callers] == ["given_back"] * 10
    assert len(world.starts) <= 3
    assert world.max_wait_s < 15.0


def test_a_cold_slot_asked_by_five_and_five_loads_each_once() -> None:
    """SWP-02."""
    world = World(RULES, a=Model(), b=Model())

    callers = [world.ask(recipe) for recipe in ("a", "b") * 5]
    world.run(60.0)

    assert [c.ended for c in callers] == ["given_back"] * 10
    assert world.starts == ["a", "b"]


def test_a_stream_ends_whole_before_the_swap() -> None:
    """SWP-03."""
    world = loaded(a=Model(), b=Model())
    stream = world.ask("a", runs_s=6.0)
    world.run(1.0)

    other = world.ask("b")
    world.run(4.9)
    assert other.granted_at is None
    world.run(10.0)

    assert stream.ended == "given_back"
    assert other.granted_at is not None


def test_a_stream_that_outlives_the_drain_limit_is_evicted_and_told_so() -> None:
    """SWP-03."""
    world = loaded(a=Model(), b=Model())
    stream = world.ask("a", runs_s=100.0)

    other = world.ask("b")
    world.run(RULES.drain_s - 0.1)
    assert stream.id in world.slot.leases
    world.run(100.0)

    assert stream.ended == "evicted"
    assert other.ended == "given_back"


def test_a_model_that_loads_is_no_victim() -> None:
    """SWP-06."""
    world = World(RULES, b=Model(load_s=4.0), c=Model())
    waits = world.ask("b")
    world.run(1.0)

    other = world.ask("c")
    world.run(60.0)

    assert waits.granted_at is not None
    assert other.granted_at is not None
    assert waits.granted_at < other.granted_at
    assert [type(e) for e in world.effects if isinstance(e, Start | Stop | Kill)] == [
        Start,
        Stop,
        Start,
    ]


def test_a_failed_start_is_tried_again_after_its_pause() -> None:
    """SWP-07."""
    world = World(RULES, a=Model(fails=[True]))
    first = world.ask("a")
    world.run(3.0)

    assert code(first) == "failed"
    assert world.slot.phase == "failed"
    assert world.slot.failures["a"].reason == "out of memory"
    assert world.slot.failures["a"].log_tail == "CUDA"

    world.run(RULES.retry_first_s)
    second = world.ask("a")
    world.run(60.0)

    assert second.ended == "given_back"
    assert world.slot.failures == {}


def test_three_models_at_once_on_a_cold_slot_are_refused_with_a_wait_or_queue() -> None:
    """SWP-08."""
    world = World(RULES, a=Model(load_s=8.0), b=Model(load_s=8.0), c=Model(load_s=8.0))

    refused = [world.ask(recipe, wait_s=0.0) for recipe in ("a", "b", "c")]

    assert [code(c) for c in refused] == ["loading", "swapping", "swapping"]
    world.run(200.0)
    assert world.starts == ["a", "b", "c"]


def test_a_refused_caller_that_returns_when_told_finds_its_model() -> None:
    """SWP-08."""
    world = loaded(a=Model(load_s=8.0), b=Model(load_s=8.0))
    world.ask("b", runs_s=0.1)
    world.run(60.0)
    for _ in range(20):  # somebody always wants the other one
        world.later(world.random.uniform(0.0, 20.0), lambda: world.ask("b"))

    refused = world.ask("a", wait_s=0.0)
    assert refused.refusal is not None
    wait_s = refused.refusal.retry_after_s
    world.run(wait_s)

    assert wait_s == pytest.approx(8.5, abs=2.5)
    assert world.ask("a", wait_s=0.0).granted_at is not None


def test_callers_that_are_refused_together_do_not_return_together() -> None:
    """SWP-08."""
    world = loaded(a=Model(), b=Model(load_s=60.0))

    refused = [world.ask("b", wait_s=0.0) for _ in range(30)]

    told = {c.refusal.retry_after_s for c in refused if c.refusal}
    assert len(told) > 4
    assert min(told) >= 30
    assert max(told) <= 36


def test_an_engine_that_ignores_the_stop_is_killed_before_the_next_starts() -> None:
    """SWP-12."""
    world = loaded(a=Model(ignores_stop=True), b=Model())

    other = world.ask("b")
    world.run(RULES.stop_grace_s - 0.1)
    assert world.slot.phase == "stopping"
    assert world.starts == ["a"]
    world.run(10.0)

    assert other.ended == "given_back"
    assert [type(e) for e in world.effects if isinstance(e, Start | Stop | Kill)] == [
        Stop,
        Kill,
        Start,
    ]


def test_an_engine_that_stops_slowly_is_waited_for() -> None:
    """SWP-12."""
    world = loaded(a=Model(stop_s=9.0), b=Model())

    other = world.ask("b")
    world.run(60.0)

    assert other.granted_at == pytest.approx(other.asked_at + 9.0 + 2.0)
    assert not any(isinstance(e, Kill) for e in world.effects)


def test_a_load_whose_caller_left_is_finished_and_goes_at_once_for_the_next() -> None:
    """SWP-14."""
    world = World(RULES, a=Model(load_s=5.0), b=Model(load_s=5.0))
    gone = world.ask("a")
    world.run(1.0)
    world.leave(gone)
    world.run(1.0)

    other = world.ask("b")
    world.run(60.0)

    assert world.starts == ["a", "b"]
    assert other.granted_at == pytest.approx(1000.0 + 5.0 + 0.5 + 5.0)  # no residency for a


def test_a_load_that_another_caller_waits_for_has_its_residency() -> None:
    """SWP-14."""
    world = World(RULES, a=Model(load_s=5.0), b=Model(load_s=5.0))
    gone, stays = world.ask("a"), world.ask("a")
    world.run(1.0)
    world.leave(gone)
    world.run(1.0)

    other = world.ask("b")
    world.run(60.0)

    assert stays.ended == "given_back"
    assert other.granted_at == pytest.approx(1000.0 + 5.0 + RULES.min_residency_s + 0.5 + 5.0)


def test_a_drain_is_called_off_when_nobody_is_left_who_wants_the_other() -> None:
    """SWP-14."""
    world = loaded(a=Model(), b=Model())
    world.ask("a", runs_s=10.0)
    other = world.ask("b")
    queues = world.ask("a")
    assert not queues.answered

    world.leave(other)

    assert world.slot.phase == "ready"
    assert queues.granted_at == world.now
    assert world.starts == ["a"]


def test_a_broken_model_that_is_polled_starts_seldom_and_says_why() -> None:
    """SWP-18."""
    world = World(RULES, a=Model(load_s=1.0, fails=[True] * 99))
    polls: list[Caller] = []

    for _ in range(40):  # each half second for 20 s
        polls.append(world.ask("a", wait_s=0.0))
        world.run(0.5)

    assert len(world.starts) == 3  # at 0 s, after 5 s, after 10 s more
    failed = [c.refusal for c in polls if c.refusal and c.refusal.code == "failed"]
    assert len(failed) > 25
    assert all("out of memory" in refusal.reason for refusal in failed)
    assert {refusal.retry_after_s for refusal in failed} >= {1, 5, 10}


def test_a_broken_model_does_not_evict_while_it_pauses_and_the_last_holder_comes_back() -> None:
    """SWP-18."""
    world = loaded(a=Model(), b=Model(load_s=1.0, fails=[True] * 99))
    world.ask("b")
    world.run(5.0)
    assert world.starts == ["a", "b", "a"]

    refused = world.ask("b")
    served = world.ask("a")
    world.run(1.0)

    assert code(refused) == "failed"
    assert served.ended == "given_back"
    assert world.slot.holder == "a"


def test_a_model_that_dies_soon_after_each_start_pauses_like_a_failed_start() -> None:
    """SWP-18."""
    world = World(RULES, a=Model(load_s=1.0, dies_after_s=1.0))

    for _ in range(40):
        world.ask("a", wait_s=0.0)
        world.run(0.5)

    assert len(world.starts) <= 3
    assert world.slot.failures["a"].count >= 2
