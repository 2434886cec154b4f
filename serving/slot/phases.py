"""What follows by itself from where the slot is: starts, drains, stops and kills.

Each function takes a slot in one phase and returns where it goes from there, or None if it stays.
An engine is started in one place only (`_start`), and only from an empty slot.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from serving.slot.events import Effect, Kill, Start, Stop
from serving.slot.leases import end_all, grant_all
from serving.slot.line import others_turn, upcoming
from serving.slot.state import PAST, Failure, Phase, Promise, Rules, Slot

Moved = tuple[Slot, tuple[Effect, ...]]


def settle(slot: Slot, rules: Rules) -> Moved:
    """The slot where it stays until something happens or time passes."""
    effects: tuple[Effect, ...] = ()
    while (moved := _MOVES[slot.phase](slot, rules)) is not None:
        slot, more = moved
        effects += more
    return slot, effects


def _empty(slot: Slot, rules: Rules) -> Moved | None:
    """Stopped or failed: whoever is next is started."""
    if not slot.looked:
        return None  # an engine may be running: a start could be the second
    if slot.wish is not None and slot.wish.recipe is None:
        return replace(enter(slot, "stopped"), wish=None), ()
    recipe = upcoming(slot, rules)
    return None if recipe is None else _start(slot, recipe)


def _start(slot: Slot, recipe: str) -> Moved:
    wish, promises = slot.wish, slot.promises
    if wish is not None and recipe not in promises:
        # The operator's model stays for its residency, as if somebody had been told to come back.
        mine = Promise(recipe=recipe, since=slot.at, back_by=slot.at, turn=0)
        promises = {**promises, recipe: mine}
    overrides = {} if wish is None else wish.overrides
    started = replace(
        enter(slot, "starting"),
        holder=recipe,
        run=slot.run + 1,
        stranger=False,
        overrides=overrides,
        target=None,
        wish=None,
        comes_back=recipe if wish is not None else slot.comes_back,
        promises=promises,
        broken=False,
    )
    return started, (Start(recipe=recipe, run=started.run, overrides=overrides),)


def _starting(slot: Slot, rules: Rules) -> Moved | None:
    """A load is finished, whoever else waits; only the operator ends one."""
    wish = slot.wish
    if wish is None or not (wish.force or wish.recipe is None):
        return None
    return stop(slot, "the operator ended the load", rules)


def _ready(slot: Slot, rules: Rules) -> Moved | None:
    """It serves at least for its residency, then until it is another's turn."""
    if slot.holder in slot.failures and slot.at >= slot.ready_at + rules.proven_s:
        return replace(slot, failures=_without(slot, slot.holder)), ()
    if not others_turn(slot) or slot.at < stays_until(slot):
        return None
    target = upcoming(slot, rules)
    draining = enter(slot, "draining", f"swap to {target}" if target else "the operator stops it")
    return replace(draining, target=target, drain_until=slot.at + rules.drain_s), ()


def stays_until(slot: Slot) -> float:
    """Until when the ready holder stays, even though it is another's turn."""
    if slot.wish is None:
        return max(slot.kept_until, slot.grace_until)
    return 0.0 if slot.wish.force else slot.grace_until


def _draining(slot: Slot, rules: Rules) -> Moved | None:
    """Leases run until they are given back, or the limit.

    1. Nobody is left who wants another model, or one for the holder waits longer: it serves again.
    2. The head of the line has changed: so does the target.
    3. Leases run, and there is time: it stays.
    4. Else the engine is stopped; leases that still run are evicted.
    """
    if not others_turn(slot):  # 1.
        return grant_all(replace(enter(slot, "ready"), target=None), rules)
    target = upcoming(slot, rules)
    if target != slot.target:  # 2.
        return replace(slot, target=target), ()
    forced = slot.wish is not None and slot.wish.force
    if slot.leases and slot.at < slot.drain_until and not forced:  # 3.
        return None
    if slot.at > slot.since:  # 4.
        slot = replace(slot, drains=(*slot.drains, slot.at - slot.since)[-PAST:])
    return stop(end_all(slot, "evicted", f"evicted: {slot.reason}"), slot.reason, rules)


def stop(slot: Slot, reason: str, rules: Rules) -> Moved:
    """The engine is asked to go. What it had failed at before counts no more."""
    failures = slot.failures if slot.broken else _without(slot, slot.holder)
    slot = stopping(replace(slot, failures=failures), reason, rules)
    return slot, (Stop(recipe=slot.engine, run=slot.run, stranger=slot.stranger),)


def stopping(slot: Slot, reason: str, rules: Rules) -> Slot:
    """The slot that waits for its engine to be gone, with the time of the kill set."""
    kill_at = slot.at + rules.grace_s(slot.engine)
    slot = enter(slot, "stopping", reason)
    return replace(slot, target=upcoming(slot, rules), kill_at=kill_at)


def _stopping(slot: Slot, rules: Rules) -> Moved | None:
    """Nothing is started before the engine is gone; one that does not go is killed, and again."""
    target = upcoming(slot, rules)
    if target != slot.target:
        return replace(slot, target=target), ()
    if slot.at < slot.kill_at:
        return None
    again = replace(slot, kill_at=slot.at + rules.grace_s(slot.engine))
    return again, (Kill(recipe=slot.engine, run=slot.run, stranger=slot.stranger),)


def serve(slot: Slot, rules: Rules) -> Moved:
    """The engine is ready: those who waited for it get their leases, and it has its residency.

    One that nobody waits for any more has none: it goes at once if another is waited for.
    """
    holder = slot.engine
    promise = slot.promises.get(holder)
    kept = slot.at
    if promise or any(w.recipe == holder for w in slot.waiters):
        kept += rules.min_residency_s
    if promise:  # its callers come back with some jitter: they shall find it
        kept = max(kept, min(promise.back_by, slot.at + rules.promised_most_s))
    slot = replace(
        enter(slot, "ready"),
        ready_at=slot.at,
        kept_until=kept,
        comes_back=holder,
        promises={k: v for k, v in slot.promises.items() if k != holder},
    )
    return grant_all(slot, rules)


def enter(slot: Slot, phase: Phase, reason: str | None = None) -> Slot:
    """The slot in another phase, from now on."""
    return replace(
        slot, phase=phase, since=slot.at, reason=slot.reason if reason is None else reason
    )


def vacate(slot: Slot) -> Slot:
    """The slot, known to be empty."""
    if slot.phase == "stopping" and not slot.broken:
        slot = replace(slot, stops=(*slot.stops, slot.at - slot.since)[-PAST:])
    slot = enter(slot, "failed" if slot.broken else "stopped")
    return replace(slot, holder=None, stranger=False, overrides={}, target=None)


def _without(slot: Slot, recipe: str | None) -> dict[str, Failure]:
    return {k: v for k, v in slot.failures.items() if k != recipe}


_MOVES: dict[Phase, Callable[[Slot, Rules], Moved | None]] = {
    "stopped": _empty,
    "failed": _empty,
    "starting": _starting,
    "ready": _ready,
    "draining": _draining,
    "stopping": _stopping,
}
