"""What each kind of ask comes to: `active`, no swap, no wait, a full line; a lease not renewed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from serving.slot.events import Ask, FoundNothing, Grant, Refuse, Renew, Tick
from serving.slot.leases import ending
from serving.slot.state import Slot
from serving.slot.step import step
from tests.slot.pure.test_cases import RULES, code, loaded
from tests.slot.pure.world import Model, World


def test_active_goes_to_whatever_is_loaded() -> None:
    world = loaded("b", a=Model(), b=Model())

    caller = world.ask("active", wait_s=0.0)

    assert caller.lease_recipe == "b"
    assert world.starts == ["b"]


def test_active_on_an_empty_slot_is_refused_and_loads_nothing() -> None:
    world = World(RULES, a=Model())

    caller = world.ask("active")
    world.run(60.0)

    assert code(caller) == "not_loaded"
    assert world.starts == []


def test_active_waits_for_a_load_that_is_under_way() -> None:
    world = World(RULES, a=Model(load_s=5.0))
    world.ask("a")

    caller = world.ask("active", wait_s=10.0)
    short = world.ask("active", wait_s=2.0)
    world.run(20.0)

    assert caller.lease_recipe == "a"
    assert code(short) == "loading"


def test_active_does_not_hold_up_a_swap_and_is_served_after_it() -> None:
    world = loaded(a=Model(), b=Model())
    world.ask("a", runs_s=5.0)
    world.ask("b")

    caller = world.ask("active")
    world.run(20.0)

    assert caller.lease_recipe == "b"


def test_active_never_starts_a_swap_even_where_a_swap_is_allowed() -> None:
    world = loaded(a=Model(), b=Model())

    world.ask("active", swap=True, wait_s=0.0)
    world.run(60.0)

    assert world.slot.holder == "a"
    assert world.starts == ["a"]


def test_a_caller_that_may_not_swap_is_refused_when_another_is_loaded() -> None:
    world = loaded(a=Model(), b=Model())

    caller = world.ask("b", swap=False)
    world.run(60.0)

    assert code(caller) == "not_loaded"
    assert world.slot.holder == "a"


def test_a_caller_that_may_not_swap_waits_for_a_load_that_another_started() -> None:
    world = loaded(a=Model(), b=Model(load_s=5.0))
    world.ask("b")

    caller = world.ask("b", swap=False)
    world.run(20.0)

    assert caller.lease_recipe == "b"


def test_the_demand_of_a_caller_that_may_not_swap_holds_no_drain_up() -> None:
    world = loaded(a=Model(), b=Model())
    world.ask("a", runs_s=5.0)
    other = world.ask("b")
    stays = world.ask("b", swap=False)
    world.run(1.0)

    world.leave(other)

    assert code(stays) == "not_loaded"
    assert world.slot.phase == "ready"


def test_a_caller_that_does_not_wait_starts_the_swap_and_is_told_how_long_it_takes() -> None:
    world = loaded(a=Model(), b=Model())
    world.ask("b", runs_s=0.1)
    world.run(30.0)
    world.ask("a", runs_s=0.1)
    world.run(30.0)

    refused = world.ask("b", wait_s=0.0)

    assert code(refused) == "swapping"
    assert refused.refusal is not None
    assert 2 <= refused.refusal.retry_after_s <= 4
    world.run(refused.refusal.retry_after_s + 0.5)
    assert world.ask("b", wait_s=0.0).granted_at is not None


def test_a_model_that_was_promised_stays_until_its_caller_was_told_to_return() -> None:
    world = loaded(a=Model(), b=Model())
    refused = world.ask("b", wait_s=0.0)  # never loaded: the guess is half a minute
    assert refused.refusal is not None
    world.ask("a", wait_s=600.0)

    world.run(refused.refusal.retry_after_s - 0.1)

    assert world.slot.holder == "b"
    assert world.ask("b", wait_s=0.0).granted_at is not None


def test_a_promise_whose_caller_never_returns_is_forgotten() -> None:
    world = loaded(a=Model(), b=Model())
    stream = world.ask("a", runs_s=15.0)
    world.ask("b", wait_s=0.0)

    world.run(1000.0)

    assert stream.ended == "given_back"
    assert world.starts == ["a", "b"]  # loaded once, and not again
    assert world.slot.promises == {}


def test_one_more_than_may_wait_is_refused() -> None:
    world = World(replace(RULES, max_waiting=3), a=Model())
    waiting = [world.ask("a") for _ in range(3)]

    refused = world.ask("a")
    at_once = world.ask("a", wait_s=0.0)
    world.run(30.0)

    assert code(refused) == "full"
    assert code(at_once) == "loading"
    assert all(c.ended == "given_back" for c in waiting)


def test_who_waits_too_long_is_told_so() -> None:
    world = World(replace(RULES, max_wait_s=4.0), a=Model(load_s=30.0))

    longest, shorter = world.ask("a", wait_s=600.0), world.ask("a", wait_s=3.0)
    world.run(5.0)

    assert code(longest) == "waited"
    assert code(shorter) == "loading"


def test_a_lease_that_nobody_renews_runs_out_and_holds_no_swap_up() -> None:
    rules, random = RULES, World(RULES).random
    slot, _ = step(Slot(), FoundNothing(), 0.0, rules, random)
    slot = replace(slot, phase="ready", holder="a", run=1)
    slot, effects = step(slot, _ask("x", "a"), 0.0, rules, random)
    assert isinstance(effects[0], Grant)

    for now in range(1, 31):
        slot, _ = step(slot, Tick(), float(now), rules, random)

    assert slot.leases == {}
    assert ending(slot, "x").how == "expired"
    late, _ = step(slot, Renew(lease="x", recipe="a"), 30.5, rules, random)
    assert "x" in late.leases  # its stream runs after all
    other, _ = step(slot, Renew(lease="x", recipe="b"), 30.5, rules, random)
    assert other.leases == {}


def test_an_ask_that_comes_twice_is_one() -> None:
    rules, random = RULES, World(RULES).random
    slot, _ = step(Slot(), FoundNothing(), 0.0, rules, random)
    slot, _ = step(slot, _ask("x", "a"), 0.0, rules, random)

    again, effects = step(slot, _ask("x", "a"), 0.0, rules, random)

    assert len(again.waiters) == 1
    assert not [e for e in effects if isinstance(e, Grant | Refuse)]


@pytest.mark.parametrize("wait_s", [-1.0, 0.0])
def test_nothing_is_granted_or_started_before_it_is_known_what_runs(wait_s: float) -> None:
    slot, effects = step(Slot(), _ask("x", "a", wait_s), 0.0, RULES, World(RULES).random)

    assert [e.code for e in effects if isinstance(e, Refuse)] == ["loading"]
    assert slot.run == 0


def test_a_newcomer_after_residency_queues_even_if_nobody_woke_the_slot() -> None:
    random = World(RULES).random
    slot = Slot(phase="ready", holder="a", run=1, looked=True, kept_until=10.0, at=9.0, seen=9.0)
    slot, _ = step(slot, _ask("b", "b"), 9.0, RULES, random)

    slot, _ = step(slot, _ask("late", "a"), 10.5, RULES, random)

    assert "late" not in slot.leases
    assert slot.phase == "stopping"


def test_a_caller_of_the_holder_who_waits_longer_than_all_others_is_served_first() -> None:
    world = loaded(a=Model(), b=Model(), c=Model())
    world.ask("a", runs_s=10.0)
    first, second, third = world.ask("b"), world.ask("a"), world.ask("c")

    world.leave(first)

    assert second.granted_at == world.now
    world.run(60.0)
    assert third.ended == "given_back"
    assert world.starts == ["a", "c"]


@pytest.mark.parametrize("leap_s", [-1e7, 1e7])
def test_a_clock_that_is_set_refuses_nobody_and_ends_no_lease(leap_s: float) -> None:
    world = loaded(a=Model(), b=Model())
    stream = world.ask("a", runs_s=18.0)
    waits = world.ask("b", wait_s=60.0)
    world.run(1.0)

    world.set_clock(leap_s)

    assert stream.id in world.slot.leases
    assert not waits.answered
    world.run(60.0)
    assert waits.ended == "given_back"


def _ask(id_: str, recipe: str, wait_s: float = 60.0) -> Ask:
    return Ask(id=id_, recipe=recipe, may_swap=True, wait_s=wait_s)
