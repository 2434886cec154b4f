"""An attempt on a slot: a lease first, then the engine that it names, then the lease back.

    no lease            the request is held, or told when to come back; see said.py
    the client leaves   the call that waits is closed, or the lease given back
    the answer is out   the lease goes back behind it, in nobody's way
    the answer broke    the control plane is asked why, before health is told: an evicted lease
                        counts against nobody, an engine that died counts as any other

The permit is held before the lease, so that a deployment's caps hold for those who wait too. The
wait is queue time: the deployment's own limits begin with the lease.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import replace
from random import Random
from typing import Final, Protocol

from gateway.config.config import Config, Deployment, Slot
from gateway.config.slot_rules import may_swap
from gateway.delivery import Delivery
from gateway.exchange import Request
from gateway.fit import merged
from gateway.judge import Verdict
from gateway.routing.facts import Admitted
from gateway.routing.table import Group
from gateway.slots.control import Control, Unreachable
from gateway.slots.leases import Lease, Leases
from gateway.slots.said import EVICTED, UNREACHABLE, Granted, no_lease, pause_s, wait_s
from gateway.trace import Leased, Trace

HOLD_BEAT_S: Final = 15.0  # between heartbeats to a client that is held, where the file says none


class Admission(Protocol):
    """The clock and the chance of the gateway."""

    random: Random

    def clock(self) -> float:
        """Seconds since some moment."""
        ...


class Turn(Protocol):
    """The request's way that an attempt belongs to; see relay/turn.py."""

    config: Config
    request: Request
    delivery: Delivery
    trace: Trace
    groups: Mapping[str, Group]

    @property
    def admission(self) -> Admission:
        """Whoever handed out the permit."""
        ...

    async def ask(self, admitted: Admitted, deployment: Deployment, *, spare: bool) -> Verdict:
        """Send to a deployment as it is given, and pass on what comes."""
        ...


class Slots:
    """Attempts on deployments of slots. One serves the process; a reload changes nothing here."""

    def __init__(self, leases: Leases, *, hold_beat_s: float = HOLD_BEAT_S) -> None:
        self.leases, self.hold_beat_s = leases, hold_beat_s
        self._fitted: dict[str, tuple[Deployment, Granted, Deployment]] = {}

    async def attempt(self, turn: Turn, admitted: Admitted, *, spare: bool) -> Verdict:
        """One attempt, with its lease. Raises BadRequest for an X-Slot-Wait that is no number."""
        deployment = admitted.permit.deployment
        slot = turn.config.slots[deployment.slot or ""]
        control = self.leases.control(slot.url, slot.key)
        granted = await self._granted(turn, slot, control, deployment)
        if isinstance(granted, Verdict):
            return granted
        lease = self.leases.take(control, granted, turn.request.id.decode())
        turn.trace.leased = Leased(granted.recipe, granted.port, granted.served_name)
        try:
            verdict = await turn.ask(admitted, self._fit(deployment, granted), spare=spare)
            return await self._explained(turn, slot, lease, verdict)
        finally:
            self.leases.give_back(lease)

    async def _granted(
        self, turn: Turn, slot: Slot, control: Control, deployment: Deployment
    ) -> Granted | Verdict:
        """A lease, after holding the request as long as it may be held; or why there is none."""
        limit = wait_s(turn.trace.slot_wait, slot)
        beats = turn.request.stream and limit > 0 and turn.config.heartbeat_s == 0
        clock = turn.admission.clock
        began = clock()
        try:
            async with AsyncExitStack() as stack:
                if beats:
                    await stack.enter_async_context(turn.delivery.beating(self.hold_beat_s))
                return await _ask(turn, slot, control, deployment, began + limit)
        finally:
            turn.trace.held(clock() - began)

    async def _explained(self, turn: Turn, slot: Slot, lease: Lease, verdict: Verdict) -> Verdict:
        """The verdict in the light of what became of the lease."""
        if verdict.kind in ("retry", "timeout"):
            ended = await asyncio.shield(self.leases.give_back(lease))
            if ended == "evicted":
                return no_lease(EVICTED, slot, turn.admission.random)
        elif lease.lost and verdict.kind == "ok":
            return replace(verdict, outcome="ok-lease-lost")
        return verdict

    def _fit(self, deployment: Deployment, granted: Granted) -> Deployment:
        """The deployment as the lease has it; the same value while the slot says the same."""
        known = self._fitted.get(deployment.id)
        if known is not None and known[0] is deployment and _is_same(known[1], granted):
            return known[2]
        fitted = _fitted(deployment, granted)
        self._fitted[deployment.id] = deployment, granted, fitted
        return fitted


async def _ask(
    turn: Turn, slot: Slot, control: Control, deployment: Deployment, until: float
) -> Granted | Verdict:
    """Ask for a lease until there is an answer: a control plane may be starting anew."""
    clock, random, tries = turn.admission.clock, turn.admission.random, 0
    while True:
        try:
            said = await control.lease(
                deployment.recipe or "",
                swap=_may_swap(turn, deployment),
                wait_s=max(0.0, until - clock()),
                holder=turn.request.id.decode(),
            )
            return said if isinstance(said, Granted) else no_lease(said, slot, random)
        except Unreachable:
            pause, tries = pause_s(tries, random), tries + 1
            if clock() + pause >= until:
                return no_lease(UNREACHABLE, slot, random)
        await asyncio.sleep(pause)


def _may_swap(turn: Turn, deployment: Deployment) -> bool:
    route = turn.trace.route
    return route is not None and may_swap(
        deployment,
        group=turn.groups[deployment.group].tier,
        name=route.tier,
        task=route.kind == "task",
    )


def _is_same(one: Granted, other: Granted) -> bool:
    return (one.url, one.served_name) == (other.url, other.served_name) and (
        one.variants == other.variants
    )


def _fitted(deployment: Deployment, granted: Granted) -> Deployment:
    """Address and name of the lease; the variant's fields under the file's own extra_body."""
    variant = granted.variants.get(deployment.variant or "", {})
    return replace(
        deployment,
        api_base=granted.url.rstrip("/"),
        served_name=granted.served_name,
        fixed=merged(variant, dict(deployment.fixed)),
    )
