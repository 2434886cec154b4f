"""Leases: the right to send one request to the engine in the slot. They say who runs."""

from __future__ import annotations

from dataclasses import replace

from serving.slot.events import Effect, Grant
from serving.slot.state import ACTIVE, Ended, Ending, Lease, Rules, Slot, Waiter

REMEMBERED = 256  # leases that the slot ended; a caller asks within seconds, when its stream breaks


def grant(slot: Slot, waiter: Waiter, rules: Rules) -> tuple[Slot, Effect]:
    """The slot with this waiter's lease on the holder, out of the line."""
    lease = Lease(
        id=waiter.id,
        recipe=slot.engine,
        holder=waiter.holder,
        since=slot.at,
        expires=slot.at + rules.lease_s,
        waited_s=slot.at - waiter.since,
    )
    line = tuple(w for w in slot.waiters if w.id != waiter.id)
    slot = replace(slot, waiters=line, leases={**slot.leases, lease.id: lease})
    return slot, Grant(waiter=waiter.id, lease=lease)


def grant_all(slot: Slot, rules: Rules) -> tuple[Slot, tuple[Effect, ...]]:
    """Leases for everyone in the line whom the holder serves."""
    effects: list[Effect] = []
    for waiter in slot.waiters:
        if waiter.recipe in (ACTIVE, slot.holder):
            slot, effect = grant(slot, waiter, rules)
            effects.append(effect)
    return slot, tuple(effects)


def give_back(slot: Slot, lease: str) -> Slot:
    """The slot without this lease."""
    return replace(slot, leases={k: v for k, v in slot.leases.items() if k != lease})


def end_all(slot: Slot, how: Ending, reason: str) -> Slot:
    """The slot without leases; their callers are told why when they give them back."""
    return _end(slot, tuple(slot.leases), how, reason)


def expire(slot: Slot) -> Slot:
    """The slot without the leases that nobody renewed."""
    late = tuple(lease.id for lease in slot.leases.values() if lease.expires <= slot.at)
    return _end(slot, late, "expired", "the lease was not renewed in time") if late else slot


def _end(slot: Slot, leases: tuple[str, ...], how: Ending, reason: str) -> Slot:
    ended = slot.ended + tuple(Ended(lease=lease, how=how, reason=reason) for lease in leases)
    left = {k: v for k, v in slot.leases.items() if k not in leases}
    return replace(slot, leases=left, ended=ended[-REMEMBERED:])


def renew(slot: Slot, lease: str, recipe: str, holder: str, rules: Rules) -> Slot:
    """The slot with this lease alive, if its engine is the one that serves now.

    1. It is known: it lives on.
    2. It is not, or it expired, and its recipe serves: it is taken up (the control plane was
       restarted, or the caller was late). Its stream runs, so a swap has to wait for it.
    3. The slot ended it, or another engine is in the slot: nothing; the lease is lost.
    """
    known = slot.leases.get(lease)
    if known is not None:  # 1.
        kept = replace(known, expires=slot.at + rules.lease_s)
        return replace(slot, leases={**slot.leases, lease: kept})
    serves = slot.phase in ("ready", "draining") and slot.holder == recipe
    if not serves or ending(slot, lease).how not in ("unknown", "expired"):  # 3.
        return slot
    taken = Lease(  # 2.
        id=lease, recipe=recipe, holder=holder, since=slot.at, expires=slot.at + rules.lease_s
    )
    ended = tuple(each for each in slot.ended if each.lease != lease)
    return replace(slot, leases={**slot.leases, lease: taken}, ended=ended)


def ending(slot: Slot, lease: str) -> Ended:
    """What to tell a caller that gives this lease back. Ask before sending the GiveBack."""
    if lease in slot.leases:
        return Ended(lease=lease, how="given_back", reason="")
    for each in reversed(slot.ended):
        if each.lease == lease:
            return each
    return Ended(lease=lease, how="unknown", reason="the slot knows no such lease")
