"""The operator's up and down, and what a restart of the control plane finds."""

from __future__ import annotations

from random import Random

import pytest

from serving.slot.events import Effect, Event, FoundRecipe, FoundStranger, Gone, Ready, Start, Stop
from serving.slot.plain import plain, restored
from serving.slot.state import Lease, Slot
from serving.slot.step import step
from tests.slot.pure.test_cases import RULES, code, loaded
from tests.slot.pure.world import Model, World


def happens(slot: Slot, *events: Event, now: float = 0.0) -> tuple[Slot, list[Effect]]:
    done: list[Effect] = []
    for event in events:
        slot, effects = step(slot, event, now, RULES, Random(1))
        done += effects
    return slot, done


def test_up_ends_a_residency_but_waits_for_leases() -> None:
    world = World(RULES, a=Model(), b=Model())
    stream = world.ask("a", runs_s=10.0)
    world.run(2.5)

    world.up("b")
    world.run(5.0)
    assert world.slot.phase == "draining"
    world.run(20.0)

    assert stream.ended == "given_back"
    assert world.slot.holder == "b"


def test_up_by_force_evicts_at_once() -> None:
    world = World(RULES, a=Model(), b=Model())
    stream = world.ask("a", runs_s=100.0)
    world.run(2.5)

    world.up("b", force=True)
    world.run(11.0)

    assert stream.ended == "evicted"
    assert world.slot.holder == "b"


@pytest.mark.parametrize(("force", "starts"), [(False, ["a", "b"]), (True, ["a", "b", "a"])])
def test_only_force_ends_a_load_and_its_callers_keep_their_place(
    force: bool, starts: list[str]
) -> None:
    world = World(RULES, a=Model(load_s=10.0), b=Model())
    waits = world.ask("a")
    world.run(1.0)

    world.up("b", force=force)
    world.run(60.0)

    assert world.starts == starts
    assert waits.ended == "given_back"


def test_up_tries_a_recipe_that_pauses_at_once() -> None:
    world = World(RULES, a=Model(fails=[True]))
    world.ask("a")
    world.run(3.0)
    assert world.slot.failures["a"].count == 1

    world.up("a")
    world.run(3.0)

    assert world.slot.phase == "ready"
    assert world.slot.failures == {}


def test_up_of_what_is_loaded_changes_nothing_and_calls_a_drain_off() -> None:
    world = loaded(a=Model(), b=Model())
    world.ask("a", runs_s=10.0)
    other = world.ask("b")

    world.up("a")

    assert world.slot.phase == "ready"
    assert world.slot.kept_until == world.slot.at + RULES.min_residency_s
    world.run(60.0)
    assert other.ended == "given_back"


def test_down_refuses_who_waits_and_leaves_the_slot_empty() -> None:
    world = loaded(a=Model(), b=Model())
    stream = world.ask("a", runs_s=5.0)
    waits = world.ask("b")

    world.down()
    world.run(60.0)

    assert stream.ended == "given_back"
    assert code(waits) == "not_loaded"
    assert world.slot.phase == "stopped"
    assert world.starts == ["a"]


def test_an_engine_that_dies_comes_back_where_nobody_asks_for_another() -> None:
    world = loaded(a=Model(), b=Model())
    stream = world.ask("a", runs_s=30.0)

    world.crash()
    world.run(11.0)

    assert stream.ended == "engine_died"
    assert world.slot.phase == "ready"
    assert world.starts == ["a", "a"]


def test_an_engine_that_dies_gives_way_to_who_waits() -> None:
    world = loaded(a=Model(), b=Model())
    world.ask("a", runs_s=30.0)
    other = world.ask("b")

    world.crash()
    world.run(11.0)

    assert other.ended == "given_back"
    assert world.starts == ["a", "b"]


def test_a_restart_keeps_the_engine_its_leases_and_its_failures() -> None:
    world = loaded(a=Model(), b=Model(load_s=1.0, fails=[True] * 9))
    stream = world.ask("a", runs_s=40.0)
    world.run(1.0)

    world.die()
    world.run(8.0)
    world.come_back()

    assert world.slot.phase == "ready"
    assert stream.id in world.slot.leases
    world.run(60.0)
    assert stream.ended == "given_back"
    assert world.starts == ["a"]


def test_nothing_is_evicted_while_callers_have_not_been_heard_after_a_restart() -> None:
    world = loaded(a=Model(), b=Model())
    world.die()
    world.come_back()

    other = world.ask("b")
    world.run(RULES.adopted_grace_s - 0.1)
    assert world.slot.holder == "a"
    world.run(10.0)

    assert other.ended == "given_back"


def test_a_lease_that_was_about_to_run_out_has_its_whole_time_after_a_restart() -> None:
    lease = Lease(id="x", recipe="a", holder="", since=0.0, expires=1.0)
    slot = Slot(phase="ready", holder="a", run=1, leases={"x": lease})

    slot, _ = happens(restored(plain(slot)), FoundRecipe(recipe="a", ready=True))

    assert slot.leases["x"].expires == RULES.lease_s


def test_a_load_found_after_a_restart_goes_on() -> None:
    world = World(RULES, a=Model(load_s=10.0))
    world.ask("a")
    world.run(5.0)
    world.die()
    world.come_back()

    caller = world.ask("a")
    world.run(10.0)

    assert caller.ended == "given_back"
    assert world.starts == ["a"]


def test_an_engine_that_had_been_told_to_stop_is_told_again() -> None:
    slot = Slot(phase="stopping", holder="a", run=7)

    slot, done = happens(restored(plain(slot)), FoundRecipe(recipe="a", ready=True))

    assert [e for e in done if isinstance(e, Stop)] == [Stop(recipe="a", run=8)]
    assert slot.phase == "stopping"


def test_what_no_recipe_names_is_stopped_before_anything_starts() -> None:
    slot, done = happens(Slot(), FoundStranger(what="vllm_node"))
    assert [e for e in done if isinstance(e, Stop)] == [
        Stop(recipe="vllm_node", run=1, stranger=True)
    ]

    slot, done = happens(slot, Gone(run=1))

    assert slot.phase == "stopped"
    assert not [e for e in done if isinstance(e, Start)]


def test_a_report_about_an_earlier_start_changes_nothing() -> None:
    world = World(RULES, a=Model(load_s=5.0))
    world.ask("a")
    before = world.slot

    for late in (Ready(run=0), Gone(run=0)):
        after, _ = step(before, late, world.now, RULES, Random(1))
        assert after == before


def test_data_that_is_no_slot_is_said_to_be_none() -> None:
    with pytest.raises(ValueError, match="no slot"):
        restored({"phase": "dancing"})
