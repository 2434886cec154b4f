"""What is reported about an engine: ready, failed, dead, gone; and what was found at start.

A report carries the number of the start that it is about; a late one about another changes nothing.
"""

from __future__ import annotations

from dataclasses import replace
from random import Random

from serving.slot.asks import refuse_failed
from serving.slot.events import (
    Died,
    Effect,
    FoundRecipe,
    FoundStranger,
    Gone,
    Kill,
    Ready,
    StartFailed,
    Stop,
)
from serving.slot.leases import end_all
from serving.slot.phases import enter, serve, stop, stopping, vacate
from serving.slot.state import PAST, Failure, Rules, Slot

Moved = tuple[Slot, tuple[Effect, ...]]


def ready(slot: Slot, event: Ready, rules: Rules) -> Moved:
    """A load is over; its length is remembered."""
    if event.run != slot.run or slot.phase != "starting" or slot.holder is None:
        return slot, ()
    past = (*slot.loads.get(slot.holder, ()), slot.at - slot.since)[-PAST:]
    return serve(replace(slot, loads={**slot.loads, slot.holder: past}), rules)


def start_failed(slot: Slot, event: StartFailed, rules: Rules, random: Random) -> Moved:
    """A load failed: what is left of it is asked to go."""
    if event.run != slot.run or slot.phase != "starting":
        return slot, ()
    slot, refused = _broke(slot, event.reason, event.log_tail, rules, random)
    slot, stops = stop(slot, event.reason, rules)
    return slot, refused + stops


def died(slot: Slot, event: Died, rules: Rules, random: Random) -> Moved:
    """The engine ended by itself: whatever is left of it is killed."""
    alive = slot.phase in ("starting", "ready", "draining")
    if event.run != slot.run or not alive or slot.holder is None:
        return slot, ()
    slot, refused = _broke(slot, event.reason, event.log_tail, rules, random)
    slot = stopping(slot, event.reason, rules)
    return slot, (*refused, Kill(recipe=slot.engine, run=slot.run))


def gone(slot: Slot, event: Gone, rules: Rules, random: Random) -> Moved:
    """Nothing of the engine is left: the slot is empty. Nobody had told it to go: it died."""
    if event.run != slot.run or slot.holder is None:
        return slot, ()
    refused: tuple[Effect, ...] = ()
    if slot.phase != "stopping":
        slot, refused = _broke(slot, "the engine is gone", "", rules, random)
    return vacate(slot), refused


def _broke(slot: Slot, reason: str, log_tail: str, rules: Rules, random: Random) -> Moved:
    """The failure is counted; its recipe pauses, longer each time, and nobody waits for it.

    An engine that had served for a while before it died may start again at once. One that dies
    soon after each start is a failed start, or every caller would start it again.
    """
    slot = end_all(slot, "engine_died", reason)
    served = slot.phase in ("ready", "draining")
    proven = served and slot.at >= slot.ready_at + rules.proven_s
    before = slot.failures.get(slot.engine)
    count = 1 if before is None or proven else before.count + 1
    pause_s = 0.0 if proven else _pause_s(count, rules)
    failure = Failure(
        count=count,
        not_before=slot.at + pause_s,
        reason=reason,
        log_tail=log_tail,
        at=slot.at,
    )
    failures = {**slot.failures, slot.engine: failure}
    slot = replace(slot, broken=True, failures=failures)
    return (slot, ()) if proven else refuse_failed(slot, slot.engine, random)


def _pause_s(count: int, rules: Rules) -> float:
    # Far below where a float would overflow; no pause is longer than the longest by then.
    return min(rules.retry_most_s, rules.retry_first_s * 2.0 ** min(count - 1, 60))


# -- found at the control plane's start ----------------------------------------------------------


def found_nothing(slot: Slot) -> Moved:
    """No engine runs. Whatever was on its way has to begin again."""
    if slot.looked:
        return slot, ()
    slot = end_all(replace(slot, looked=True), "engine_died", "the engine was gone at start")
    return vacate(replace(slot, broken=slot.broken or slot.phase == "failed")), ()


def found_stranger(slot: Slot, event: FoundStranger, rules: Rules) -> Moved:
    """Something that no recipe names is in the slot: it goes before anything is started."""
    if slot.looked:
        return slot, ()
    slot = end_all(replace(slot, looked=True), "engine_died", "another engine was found at start")
    slot = replace(
        slot, holder=event.what, stranger=True, run=slot.run + 1, overrides={}, broken=False
    )
    return stop(slot, f"found at start, in no recipe: {event.what}", rules)


def found_recipe(slot: Slot, event: FoundRecipe, rules: Rules) -> Moved:
    """A recipe's engine runs: it is adopted where it was.

    1. It had been told to stop: it is told again.
    2. It still loads: the load goes on.
    3. It serves: it has its leases, what is left of its residency, and the grace.
    """
    if slot.looked:
        return slot, ()
    same = slot.holder == event.recipe and not slot.stranger
    if not same:
        slot = _adopt_another(slot, event.recipe)
    slot = replace(slot, looked=True, run=slot.run + 1, grace_until=slot.at + rules.adopted_grace_s)
    if same and slot.phase == "stopping":  # 1.
        again = replace(slot, kill_at=slot.at + rules.grace_s(event.recipe))
        return again, (Stop(recipe=event.recipe, run=again.run),)
    if not event.ready:  # 2.
        slot = end_all(slot, "engine_died", "the engine was started again")
        return (slot if slot.phase == "starting" else enter(slot, "starting")), ()
    fresh = not same or slot.phase not in ("ready", "draining")  # 3.
    slot, effects = (
        serve(replace(slot, broken=False, target=None), rules) if fresh else _again(slot)
    )
    return _renewed(slot, rules), effects


def _adopt_another(slot: Slot, recipe: str) -> Slot:
    slot = end_all(slot, "engine_died", "another engine was found at start")
    slot = replace(slot, holder=recipe, stranger=False, overrides={}, broken=False, target=None)
    return enter(slot, "stopped", "found at start")


def _again(slot: Slot) -> Moved:
    """A drain begins anew, with its whole time: the callers have to be heard first."""
    return (slot if slot.phase == "ready" else enter(slot, "ready")), ()


def _renewed(slot: Slot, rules: Rules) -> Slot:
    leases = {
        lease.id: replace(lease, expires=max(lease.expires, slot.at + rules.lease_s))
        for lease in slot.leases.values()
    }
    return replace(slot, leases=leases)
