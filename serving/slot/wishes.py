"""The operator's wishes: up and down. They go before the line."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from serving.slot.asks import refuse_everyone
from serving.slot.events import Down, Effect, Up
from serving.slot.leases import grant_all
from serving.slot.phases import enter
from serving.slot.state import Rules, Slot, Wish

Moved = tuple[Slot, tuple[Effect, ...]]


def up(slot: Slot, event: Up, rules: Rules) -> Moved:
    """The recipe is next; a pause after failures is over, for the operator has looked.

    1. It is loading or loaded as wished: it stays, and a drain is called off.
    2. Else it is wished for: residency is over for whatever is loaded, leases are waited for, a
       load is finished first. Forced, none of this is waited for.
    """
    failures = {k: v for k, v in slot.failures.items() if k != event.recipe}
    slot = replace(slot, failures=failures, comes_back=event.recipe)
    as_wished = not event.overrides or event.overrides == slot.overrides
    here = slot.holder == event.recipe and slot.phase in ("starting", "ready", "draining")
    if not (here and as_wished and not slot.stranger):  # 2.
        wish = Wish(recipe=event.recipe, force=event.force, overrides=event.overrides)
        return replace(slot, wish=wish), ()
    slot = replace(slot, wish=None, kept_until=slot.at + rules.min_residency_s)  # 1.
    if slot.phase != "draining":
        return slot, ()
    return grant_all(replace(enter(slot, "ready"), target=None), rules)


def down(slot: Slot, event: Down, rules: Rules, random: Random) -> Moved:
    """The slot is to be empty: who waits is refused; who asks from now on starts it again."""
    slot, refused = refuse_everyone(slot, "the operator empties the slot", rules, random)
    return replace(slot, wish=Wish(recipe=None, force=event.force), comes_back=None), refused
