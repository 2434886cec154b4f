"""One step of the slot: an event comes in, a slot and effects come out. START READING HERE.

Nothing here or in the files below does I/O, reads a clock or keeps a state:

    state.py     the slot as a value, and its rules
    events.py    what happens to it, and what is to be done
    line.py      whose turn is next
    phases.py    what follows by itself: starts, drains, stops, kills
    asks.py      callers: granted, in the line, refused, promised
    leases.py    who runs
    reports.py   the engine: ready, failed, dead, gone, found
    wishes.py    the operator: up, down
    estimate.py  what the refused are told
    plain.py     the slot as JSON and back
"""

from __future__ import annotations

from dataclasses import replace
from random import Random

from serving.slot import asks, leases, phases, reports, wishes
from serving.slot.events import (
    Ask,
    Died,
    Down,
    Effect,
    Event,
    FoundNothing,
    FoundRecipe,
    FoundStranger,
    GiveBack,
    Gone,
    Left,
    Ready,
    Renew,
    StartFailed,
    Tick,
    Up,
    WakeAt,
)
from serving.slot.line import others_turn
from serving.slot.state import Rules, Slot

Moved = tuple[Slot, tuple[Effect, ...]]

# A wake-up is never nearer: below this a float that is a date cannot tell two moments apart.
_SOONEST_S = 0.001


def step(slot: Slot, event: Event, now: float, rules: Rules, random: Random) -> Moved:
    """The slot after an event, and what is to be done, in this order.

    The last effect is always the WakeAt.
    """
    due: tuple[Effect, ...] = ()
    slot = _at(slot, now, rules)
    if isinstance(event, Ask):
        # What is due comes first: a newcomer gets no lease after the time at which a drain begins.
        # Everything else comes before what is due: a lease that is renewed late is not expired
        # first, and an engine that is gone is not killed.
        slot, due = _follow(slot, rules, random)
    slot, done = _take(slot, event, rules, random)
    slot, after = _follow(slot, rules, random)
    return slot, (*due, *done, *after, WakeAt(at=now + _wake_in_s(slot, rules)))


def _at(slot: Slot, now: float, rules: Rules) -> Slot:
    """The slot at this time of the caller's clock.

    A clock that was set back stands still for one step; one that was set ahead, or a host that
    slept, goes on by `leap_s` at most. Else all who wait would be refused at once.
    """
    passed = 0.0 if slot.seen is None else min(max(0.0, now - slot.seen), rules.leap_s)
    return replace(slot, at=slot.at + passed, seen=now)


def _follow(slot: Slot, rules: Rules, random: Random) -> Moved:
    """Everything that is due now: leases and promises run out, phases move, waiters are refused."""
    slot = asks.forget_promises(leases.expire(slot), rules)
    slot, effects = phases.settle(slot, rules)
    while True:
        slot, refused = asks.turn_away(slot, rules, random)
        # With the refused their demand is gone: a drain may be called off, and others be served.
        slot, moved = phases.settle(slot, rules)
        effects += refused + moved
        if not refused:
            return slot, effects


def _take(slot: Slot, event: Event, rules: Rules, random: Random) -> Moved:  # noqa: C901, PLR0911, PLR0912 -- one row an event
    match event:
        case Ask():
            return asks.ask(slot, event, rules, random)
        case Left():
            return asks.left(slot, event.id), ()
        case GiveBack():
            return leases.give_back(slot, event.lease), ()
        case Renew():
            return leases.renew(slot, event.lease, event.recipe, event.holder, rules), ()
        case Ready():
            return reports.ready(slot, event, rules)
        case StartFailed():
            return reports.start_failed(slot, event, rules, random)
        case Died():
            return reports.died(slot, event, rules, random)
        case Gone():
            return reports.gone(slot, event, rules, random)
        case Up():
            return wishes.up(slot, event, rules)
        case Down():
            return wishes.down(slot, event, rules, random)
        case FoundNothing():
            return reports.found_nothing(slot)
        case FoundRecipe():
            return reports.found_recipe(slot, event, rules)
        case FoundStranger():
            return reports.found_stranger(slot, event, rules)
        case Tick():
            return slot, ()


def _wake_in_s(slot: Slot, rules: Rules) -> float:
    """Seconds until something is due; half a leap at most, so that a real leap can be told."""
    due = [waiter.deadline for waiter in slot.waiters]
    due += [lease.expires for lease in slot.leases.values()]
    due += [promise.back_by + rules.promised_most_s for promise in slot.promises.values()]
    due += [failure.not_before for failure in slot.failures.values()]
    if slot.phase == "ready" and others_turn(slot):
        due.append(phases.stays_until(slot))
    if slot.phase == "draining":
        due.append(slot.drain_until)
    if slot.phase == "stopping":
        due.append(slot.kill_at)
    nearest = min((at - slot.at for at in due if at > slot.at), default=rules.leap_s)
    return max(_SOONEST_S, min(nearest, rules.leap_s / 2))
