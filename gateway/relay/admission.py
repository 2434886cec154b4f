"""When: a permit now, or a place in the group's own first-come queue. The fourth step.

    a permit is free, and nobody waits                    take it
    every member that does not rest is at a cap           wait, unless the queue is full
    nobody may serve (all rest, or none fits)             NoCandidate at once

A newcomer never overtakes a waiter. Each permit given back, each rest that ends and each window
that opens chooses again for those who wait, in their order. Saturation is not failure: nothing
here counts against an engine.
"""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

from gateway.judge import Verdict
from gateway.routing.choose import Candidate, Decision, RequestFacts, candidates
from gateway.routing.health import Health
from gateway.routing.limits import Limits, Permit
from gateway.routing.table import Group

_MAX_REST_S = 3600.0  # however long a Retry-After


@dataclass(frozen=True, slots=True)
class Admitted:
    """A permit, the candidate it is for, and whether the attempt is a trial."""

    permit: Permit
    candidate: Candidate
    trial: bool


class NoCandidate(Exception):
    """Nobody in the group may serve this request now."""

    def __init__(self, decision: Decision) -> None:
        super().__init__("no candidate")
        self.decision = decision


class Full(Exception):
    """The group is saturated, and the wait is over or not allowed. `opens_in_s` may be infinite."""

    def __init__(self, opens_in_s: float) -> None:
        super().__init__("saturated")
        self.opens_in_s = opens_in_s


@dataclass(slots=True, eq=False)
class _Waiter:
    group: Group
    facts: RequestFacts
    without: frozenset[str]
    granted: asyncio.Future[Admitted]


@dataclass(slots=True)
class _Queue:
    waiters: deque[_Waiter] = field(default_factory=deque)
    timer: asyncio.TimerHandle | None = None


class Admission:
    """Hands out permits. One serves the process; queues live by group name."""

    def __init__(
        self, health: Health, limits: Limits, clock: Callable[[], float], random: Random
    ) -> None:
        self.health, self.limits, self.clock, self.random = health, limits, clock, random
        self.bridge = False  # True once a bridge is there
        self._queues: dict[str, _Queue] = {}

    def waiting(self, group: str) -> int:
        """How many requests wait in a group's queue."""
        queue = self._queues.get(group)
        return len(queue.waiters) if queue is not None else 0

    def try_now(
        self, group: Group, facts: RequestFacts, without: frozenset[str], *, early: bool = False
    ) -> Admitted:
        """A permit that is free now, the queue left aside. Raises NoCandidate or Full."""
        now = self.clock()
        decision = self._decide(group, facts, early=early)
        tokens = facts.prompt_tokens + facts.max_tokens
        opens_in = -1.0
        for candidate in decision.candidates:
            deployment = candidate.deployment
            if deployment.id in without:
                continue
            permit = self.limits.take(deployment, now, tokens)
            if permit is not None:
                return Admitted(permit, candidate, self.health.begin(deployment.id, now))
            wait = self.limits.opens_in(deployment, now, tokens) or 0.0
            opens_in = wait if opens_in < 0 else min(opens_in, wait)
        if opens_in < 0:
            raise NoCandidate(decision)
        raise Full(opens_in)

    def _decide(self, group: Group, facts: RequestFacts, *, early: bool = False) -> Decision:
        return candidates(
            group, facts, health=self.health, now=self.clock(), random=self.random,
            bridge=self.bridge, early=early,
        )

    async def admit(
        self, group: Group, facts: RequestFacts, without: frozenset[str], max_wait_s: float
    ) -> Admitted:
        """A permit, after waiting up to `max_wait_s`. Raises NoCandidate or Full."""
        queue = self._queues.get(group.name)
        if queue is None:
            queue = self._queues[group.name] = _Queue()
        opens_in = math.inf
        if not queue.waiters:
            try:
                return self.try_now(group, facts, without)
            except Full as full:
                opens_in = full.opens_in_s
        if max_wait_s <= 0 or len(queue.waiters) >= group.rule.max_waiting:
            raise Full(opens_in)
        return await self._wait(queue, _Waiter(
            group, facts, without, asyncio.get_running_loop().create_future()
        ), max_wait_s)

    async def _wait(self, queue: _Queue, waiter: _Waiter, max_wait_s: float) -> Admitted:
        queue.waiters.append(waiter)
        self.wake(waiter.group.name)
        try:
            async with asyncio.timeout(max_wait_s):
                return await waiter.granted
        except TimeoutError:
            if _granted(waiter):  # in the very moment the time ran out
                return waiter.granted.result()
            raise Full(self._opens_in(waiter)) from None
        except asyncio.CancelledError:
            if _granted(waiter):  # the client left as its turn came: nobody will use the permit
                admitted = waiter.granted.result()
                self.give_back(admitted, 0)
            raise
        finally:
            if waiter in queue.waiters:
                queue.waiters.remove(waiter)
                self.wake(waiter.group.name)

    def _opens_in(self, waiter: _Waiter) -> float:
        tokens, now = waiter.facts.prompt_tokens + waiter.facts.max_tokens, self.clock()
        waits = [self.limits.opens_in(m, now, tokens) or 0.0 for m in waiter.group.members]
        return min(waits, default=math.inf)

    def anybody(self, group: Group, facts: RequestFacts, without: set[str]) -> bool:
        """True if some deployment outside `without` is well, be it free or not."""
        found = self._decide(group, facts).candidates
        return any(c.deployment.id not in without for c in found)

    def rests(self, group: Group) -> list[float]:
        """Seconds left to the members that rest."""
        now = self.clock()
        rests = (self.health.rests(member.id, now) for member in group.members)
        return [seconds for seconds in rests if seconds is not None]

    def told(self, admitted: Admitted, verdict: Verdict) -> None:
        """What an attempt's verdict means for the health of its deployment."""
        deployment, seconds = admitted.permit.deployment, verdict.retry_after_s or 0.0
        if verdict.kind in ("ok", "client", "overflow"):
            self.health.succeeded(deployment.id, trial=admitted.trial)
        elif verdict.kind in ("retry", "timeout"):
            self.health.failed(deployment, self.clock())
        elif verdict.kind in ("throttled", "loading"):
            own_word = verdict.kind == "throttled"
            self.health.rest(
                deployment.id, self.clock(), min(seconds, _MAX_REST_S), by_own_word=own_word
            )

    def give_back(self, admitted: Admitted, used_tokens: int) -> None:
        """The attempt is over: its permit goes back, and those who wait choose again."""
        deployment = admitted.permit.deployment
        if admitted.permit.give_back(used_tokens):
            self.health.left(deployment.id, trial=admitted.trial)
            self.wake(deployment.group)

    def wake(self, group: str) -> None:
        """Choose again for those who wait for a group, in their order."""
        queue = self._queues.get(group)
        if queue is None or not queue.waiters:
            return
        for waiter in tuple(queue.waiters):
            if waiter.granted.done():
                queue.waiters.remove(waiter)
                continue
            try:
                waiter.granted.set_result(
                    self.try_now(waiter.group, waiter.facts, waiter.without)
                )
            except NoCandidate as nobody:
                waiter.granted.set_exception(nobody)
            except Full:
                if not waiter.without:
                    break  # it could use any member and none is free: nor is one for the others
                continue
            queue.waiters.remove(waiter)
        self._set_timer(group, queue)

    def _set_timer(self, group: str, queue: _Queue) -> None:
        """Wake the queue when the next window opens or the next rest ends."""
        if queue.timer is not None:
            queue.timer.cancel()
            queue.timer = None
        if not queue.waiters:
            return
        now, first = self.clock(), queue.waiters[0]
        tokens = first.facts.prompt_tokens + first.facts.max_tokens
        waits = [
            wait
            for member in first.group.members
            for wait in (
                self.health.rests(member.id, now), self.limits.opens_in(member, now, tokens)
            )
            if wait and wait < math.inf
        ]
        if waits:
            loop = asyncio.get_running_loop()
            queue.timer = loop.call_later(min(waits) + 0.001, self.wake, group)


def _granted(waiter: _Waiter) -> bool:
    granted = waiter.granted
    return granted.done() and not granted.cancelled() and granted.exception() is None
