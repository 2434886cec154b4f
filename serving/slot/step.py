"""One step of the slot. Being written: the signature and the types stand."""

from __future__ import annotations

from random import Random

from serving.slot.events import Effect, Event
from serving.slot.state import Rules, Slot


def step(
    slot: Slot, event: Event, now: float, rules: Rules, random: Random
) -> tuple[Slot, tuple[Effect, ...]]:
    """The slot after an event, and what is to be done, in this order."""
    raise NotImplementedError
