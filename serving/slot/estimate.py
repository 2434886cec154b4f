"""How long until a recipe is ready, and what a refused caller is told."""

from __future__ import annotations

from math import ceil
from random import Random
from statistics import median

from serving.slot.line import demands, pause_s, upcoming
from serving.slot.state import ACTIVE, Rules, Slot


def load_s(slot: Slot, recipe: str, rules: Rules) -> float:
    """The median of this recipe's past loads, or the guess for one that was never loaded."""
    past = slot.loads.get(recipe)
    return median(past) if past else rules.unknown_load_s


def ready_in_s(slot: Slot, recipe: str, rules: Rules) -> float:
    """Seconds until the recipe, or whatever comes next for ACTIVE, would serve."""
    if recipe == ACTIVE:
        recipe = _next_active(slot, rules) or ACTIVE
    if recipe == slot.holder and slot.phase == "starting":
        return max(0.0, load_s(slot, recipe, rules) - (slot.at - slot.since))
    line = demands(slot)
    ahead = line[: line.index(recipe)] if recipe in line else line
    turns = sum(
        load_s(slot, other, rules) + rules.min_residency_s + _stop_s(slot)
        for other in ahead
        if other not in (recipe, slot.holder)
    )
    return _holder_goes_in_s(slot, rules) + turns + load_s(slot, recipe, rules)


def _next_active(slot: Slot, rules: Rules) -> str | None:
    return slot.holder if slot.phase == "starting" else slot.target or upcoming(slot, rules)


def _holder_goes_in_s(slot: Slot, rules: Rules) -> float:
    """Seconds until the slot is free of what is in it, by what is known now."""
    at = slot.at
    if slot.phase == "starting" and slot.holder is not None:
        left = max(0.0, load_s(slot, slot.holder, rules) - (at - slot.since))
        return left + rules.min_residency_s + _stop_s(slot)
    if slot.phase == "ready":
        stays = max(0.0, slot.kept_until - at, slot.grace_until - at)
        return stays + (_drain_s(slot, rules) if slot.leases else 0.0) + _stop_s(slot)
    if slot.phase == "draining":
        drain = max(0.0, slot.since + _drain_s(slot, rules) - at) if slot.leases else 0.0
        return drain + _stop_s(slot)
    return max(0.0, slot.since + _stop_s(slot) - at) if slot.phase == "stopping" else 0.0


def _drain_s(slot: Slot, rules: Rules) -> float:
    """How long leases run on when a swap was decided: as they did, or the limit."""
    return min(rules.drain_s, median(slot.drains)) if slot.drains else rules.drain_s


def _stop_s(slot: Slot) -> float:
    return median(slot.stops) if slot.stops else 0.0


def back_in_s(seconds: float, random: Random) -> int:
    """A Retry-After: whole seconds, not below the estimate, at most a fifth (or 1 s) above it.

    Jittered, so that callers who were refused together do not return together.
    """
    whole = max(1, ceil(seconds))
    return whole + random.randint(0, max(1, whole // 5))


def failed_back_in_s(slot: Slot, recipe: str, random: Random) -> int:
    """The Retry-After of a recipe that pauses after a failed start."""
    return back_in_s(pause_s(slot, recipe), random)
