"""The line before the slot: whose turn is next.

Asks that may swap, and promises to callers who were refused, stand in one line in the order of
their arrival. The operator's wish goes before all of them.
"""

from __future__ import annotations

from serving.slot.state import ACTIVE, Rules, Slot, Waiter


def demands(slot: Slot) -> list[str]:
    """The recipes that are waited for, each once, the longest-waiting first."""
    line = [(w.turn, w.recipe) for w in slot.waiters if w.may_swap and w.recipe != ACTIVE]
    line += [(promise.turn, promise.recipe) for promise in slot.promises.values()]
    return list(dict.fromkeys(recipe for _, recipe in sorted(line)))


def others_turn(slot: Slot) -> bool:
    """True if the holder has to go for somebody: the operator, or the head of the line."""
    line = demands(slot)
    return slot.wish is not None or (bool(line) and line[0] != slot.holder)


def upcoming(slot: Slot, rules: Rules) -> str | None:
    """The recipe that would be started if the slot were empty now, or None."""
    if slot.wish is not None:
        return slot.wish.recipe
    line = demands(slot)
    if line:
        return line[0]
    # Nobody waits: what served last comes back, so that ACTIVE has something to go to.
    back = slot.comes_back if rules.come_back else None
    return None if back is None or pause_s(slot, back) > 0 else back


def pause_s(slot: Slot, recipe: str) -> float:
    """Seconds until a recipe that failed may be started again; 0 if it may be."""
    failure = slot.failures.get(recipe)
    return 0.0 if failure is None else max(0.0, failure.not_before - slot.at)


def comes(slot: Slot, waiter: Waiter) -> bool:
    """True if this waiter, who may not swap, will be served by what is loaded or on its way."""
    if not slot.looked:
        return True  # what runs is not known yet
    if slot.phase in ("stopped", "failed"):
        return False
    here = None if slot.phase == "stopping" or slot.stranger else slot.holder
    if waiter.recipe == ACTIVE:
        return here is not None or slot.target is not None
    return waiter.recipe in (here, slot.target)
