"""Callers: who gets a lease at once, who waits, who is refused, and what a refusal leaves."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from serving.slot.estimate import back_in_s, failed_back_in_s, ready_in_s
from serving.slot.events import Ask, Code, Effect, Refuse
from serving.slot.leases import give_back, grant
from serving.slot.line import comes, pause_s
from serving.slot.state import ACTIVE, Promise, Rules, Slot, Waiter

Moved = tuple[Slot, tuple[Effect, ...]]


def ask(slot: Slot, event: Ask, rules: Rules, random: Random) -> Moved:
    """What an ask comes to.

    1. The holder is ready and stays: a lease. (Once a drain has begun nobody gets one.)
    2. The recipe pauses after a failed start: refused, with the reason; nothing is swapped.
    3. The line is full: refused. One who does not wait takes no place in it. The recipe keeps a
       place all the same, or callers of others could fill the line against it for ever.
    4. Else it joins the line. Who may not wait is refused from there, after the swap was decided.
    """
    if event.id in slot.leases or any(w.id == event.id for w in slot.waiters):
        return slot, ()
    waiter = _waiter(slot, event, rules)
    slot = replace(slot, turns=waiter.turn)
    if slot.phase == "ready" and event.recipe in (ACTIVE, slot.holder):  # 1.
        slot, granted = grant(slot, waiter, rules)
        return slot, (granted,)
    if pause_s(slot, event.recipe) > 0:  # 2.
        return slot, (failed(slot, waiter, random),)
    if event.wait_s > 0 and len(slot.waiters) >= rules.max_waiting:  # 3.
        back = back_in_s(ready_in_s(slot, event.recipe, rules), random)
        reason = f"{len(slot.waiters)} callers wait already"
        slot = promised(slot, waiter, back) if waiter.may_swap else slot
        return slot, (Refuse(waiter=event.id, code="full", reason=reason, retry_after_s=back),)
    return replace(slot, waiters=(*slot.waiters, waiter)), ()  # 4.


def _waiter(slot: Slot, event: Ask, rules: Rules) -> Waiter:
    return Waiter(
        id=event.id,
        recipe=event.recipe,
        may_swap=event.may_swap and event.recipe != ACTIVE,
        holder=event.holder,
        since=slot.at,
        deadline=slot.at + min(max(0.0, event.wait_s), rules.max_wait_s),
        at_most=event.wait_s >= rules.max_wait_s,
        turn=slot.turns + 1,
    )


def left(slot: Slot, caller: str) -> Slot:
    """The slot without this caller: its demand goes with it, and so does a lease on its way."""
    slot = give_back(slot, caller)
    return replace(slot, waiters=tuple(w for w in slot.waiters if w.id != caller))


def failed(slot: Slot, waiter: Waiter, random: Random) -> Refuse:
    """The refusal for a recipe whose start failed."""
    failure = slot.failures[waiter.recipe]
    return Refuse(
        waiter=waiter.id,
        code="failed",
        reason=f"{waiter.recipe} did not start: {failure.reason}",
        retry_after_s=failed_back_in_s(slot, waiter.recipe, random),
    )


def refuse_failed(slot: Slot, recipe: str, random: Random) -> Moved:
    """Nobody waits for a recipe that pauses, and nothing is promised for it."""
    out = tuple(failed(slot, w, random) for w in slot.waiters if w.recipe == recipe)
    promises = {k: v for k, v in slot.promises.items() if k != recipe}
    line = tuple(w for w in slot.waiters if w.recipe != recipe)
    return replace(slot, waiters=line, promises=promises), out


def refuse_everyone(slot: Slot, reason: str, rules: Rules, random: Random) -> Moved:
    """The operator empties the slot: nobody waits, nothing is promised."""
    effects: list[Effect] = []
    for waiter in slot.waiters:
        back = back_in_s(rules.unknown_load_s, random)
        effects.append(
            Refuse(waiter=waiter.id, code="not_loaded", reason=reason, retry_after_s=back)
        )
    return replace(slot, waiters=(), promises={}), tuple(effects)


def turn_away(slot: Slot, rules: Rules, random: Random) -> Moved:
    """Refusals for those whom nothing on its way will serve, and for those whose time is over."""
    effects: list[Effect] = []
    for waiter in slot.waiters:
        if not waiter.may_swap and not comes(slot, waiter):
            slot, refusal = _not_loaded(slot, waiter, rules, random)
        elif waiter.deadline <= slot.at:
            slot, refusal = _late(slot, waiter, rules, random)
        else:
            continue
        effects.append(refusal)
    return slot, tuple(effects)


def _not_loaded(slot: Slot, waiter: Waiter, rules: Rules, random: Random) -> tuple[Slot, Refuse]:
    what = "nothing is" if waiter.recipe == ACTIVE else f"{waiter.recipe} is not"
    back = back_in_s(_not_loaded_for_s(slot, waiter, rules), random)
    refusal = Refuse(
        waiter=waiter.id, code="not_loaded", reason=f"{what} loaded", retry_after_s=back
    )
    return left(slot, waiter.id), refusal


def _not_loaded_for_s(slot: Slot, waiter: Waiter, rules: Rules) -> float:
    """A guess: nothing says that it will be loaded at all, unless the last holder comes back."""
    if waiter.recipe == ACTIVE and slot.comes_back is not None and rules.come_back:
        return pause_s(slot, slot.comes_back) + ready_in_s(slot, slot.comes_back, rules)
    return rules.unknown_load_s


def _late(slot: Slot, waiter: Waiter, rules: Rules, random: Random) -> tuple[Slot, Refuse]:
    """Its time is over. A caller that may swap leaves a promise: the swap goes on without it."""
    back = back_in_s(ready_in_s(slot, waiter.recipe, rules), random)
    waited = f"waited {slot.at - waiter.since:.0f} s for {waiter.recipe}"
    code = _late_code(slot, waiter)
    refusal = Refuse(
        waiter=waiter.id, code=code, reason=f"{waited}: {_going_on(slot)}", retry_after_s=back
    )
    slot = left(slot, waiter.id)
    return (promised(slot, waiter, back) if waiter.may_swap else slot), refusal


def _late_code(slot: Slot, waiter: Waiter) -> Code:
    if waiter.at_most:
        return "waited"
    if not slot.looked:
        return "loading"
    loading = slot.phase == "starting" and waiter.recipe in (ACTIVE, slot.holder)
    return "loading" if loading else "swapping"


def _going_on(slot: Slot) -> str:
    if slot.phase == "starting":
        return f"{slot.holder} is loading"
    if slot.target is not None:
        return f"{slot.holder} is {slot.phase} for {slot.target}"
    return f"the slot is {slot.phase}" + (f" with {slot.holder}" if slot.holder else "")


def promised(slot: Slot, waiter: Waiter, back_s: float) -> Slot:
    """The slot with this refused caller's place in the line kept for its recipe."""
    known = slot.promises.get(waiter.recipe)
    promise = Promise(
        recipe=waiter.recipe,
        since=min(waiter.since, known.since) if known else waiter.since,
        back_by=max(slot.at + back_s, known.back_by if known else 0.0),
        turn=min(waiter.turn, known.turn) if known else waiter.turn,
    )
    return replace(slot, promises={**slot.promises, waiter.recipe: promise})


def forget_promises(slot: Slot, rules: Rules) -> Slot:
    """The slot without promises whose callers did not return; one that loads is kept till ready."""
    loading = slot.holder if slot.phase == "starting" else None
    kept = {
        recipe: promise
        for recipe, promise in slot.promises.items()
        if recipe == loading or slot.at < promise.back_by + rules.promised_most_s
    }
    return slot if len(kept) == len(slot.promises) else replace(slot, promises=kept)
