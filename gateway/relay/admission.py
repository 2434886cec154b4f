"""When: a permit now, or a place in the group's own line. The fourth step.

    a permit is free, and nobody waits                    take it
    every member that does not rest is at a cap           wait, unless the line is full
    nobody may serve (all rest, or none fits)             NoCandidate at once

A newcomer never overtakes a waiter. Each permit given back, each rest that ends and each window
that opens chooses again for those who wait. Saturation is no failure: no engine is blamed for it.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Set
from random import Random

from gateway.judge import Verdict, tell
from gateway.line import Line, TooLate
from gateway.routing.choose import candidates
from gateway.routing.facts import Admitted, Decision, Full, NoCandidate, RequestFacts, Wait
from gateway.routing.health import Health
from gateway.routing.limits import Limits
from gateway.routing.table import Group


class Admission:
    """Hands out permits. One serves the process; lines live by group name."""

    def __init__(
        self, health: Health, limits: Limits, clock: Callable[[], float], random: Random
    ) -> None:
        self.health, self.limits, self.clock, self.random = health, limits, clock, random
        self.bridge = False  # True once a bridge is there
        self._lines: dict[str, Line[Admitted]] = {}

    def waiting(self, group: str) -> int:
        """How many requests wait for a group."""
        return len(self._lines.get(group, ()))

    def _try(
        self, group: Group, facts: RequestFacts, without: Set[str], *, early: bool = False
    ) -> Admitted:
        """A permit that is free now, the line left aside. Raises NoCandidate or Full."""
        now, tokens = self.clock(), facts.prompt_tokens + facts.max_tokens
        decision = self._decide(group, facts, now, early=early)
        opens_in: float | None = None
        for candidate in decision.candidates:
            deployment = candidate.deployment
            if deployment.id in without:
                continue
            permit = self.limits.take(deployment, now, tokens)
            if permit is not None:
                return Admitted(permit, candidate, self.health.begin(deployment.id, now))
            wait = self.limits.opens_in(deployment, now, tokens) or 0.0
            opens_in = wait if opens_in is None else min(opens_in, wait)
        if opens_in is None:
            raise NoCandidate(decision)
        raise Full(opens_in)

    async def admit(
        self, group: Group, facts: RequestFacts, without: Set[str], wait: Wait
    ) -> Admitted:
        """A permit, after waiting within the request's budget. Raises NoCandidate or Full."""
        opens_in, line = math.inf, self._lines.get(group.name)

        def ask() -> Admitted | None:
            nonlocal opens_in
            try:
                return self._try(group, facts, without)
            except Full as full:
                opens_in = full.opens_in_s
                return None

        if not line and (admitted := ask()) is not None:
            return admitted
        seconds = min(wait.left_s, group.rule.max_wait_s)
        if seconds <= 0 or self.waiting(group.name) >= group.rule.max_waiting:
            raise Full(opens_in)
        if line is None:
            line = self._lines[group.name] = Line(lambda admitted: self.give_back(admitted, 0))
        started = self.clock()
        try:
            return await line.wait(
                ask, lambda: self._opens_in(group, facts), seconds, picky=bool(without)
            )
        except TooLate:
            raise Full(opens_in) from None
        finally:
            wait.spent(self.clock() - started)

    def free(
        self, groups: list[Group], facts: RequestFacts, without: Set[str], *, early: bool = False
    ) -> Admitted | None:
        """A permit that is free now in one of the groups, or None. `early`: see choose.py."""
        for group in groups:
            with contextlib.suppress(NoCandidate, Full):
                return self._try(group, facts, without, early=early)
        return None

    def anybody(self, group: Group, facts: RequestFacts, without: Set[str]) -> bool:
        """True if some deployment outside `without` is well, be it free or not."""
        found = self._decide(group, facts, self.clock()).candidates
        return any(c.deployment.id not in without for c in found)

    def rests(self, group: Group) -> list[float]:
        """Seconds left to the members that rest."""
        now = self.clock()
        rests = (self.health.rests(member.id, now) for member in group.members)
        return [seconds for seconds in rests if seconds is not None]

    def told(self, admitted: Admitted, verdict: Verdict) -> None:
        """Tell health what became of an attempt."""
        deployment = admitted.permit.deployment
        tell(self.health, deployment, verdict, trial=admitted.trial, now=self.clock())

    def give_back(self, admitted: Admitted, used_tokens: int) -> None:
        """The attempt is over: its permit goes back, and those who wait choose again."""
        deployment = admitted.permit.deployment
        if admitted.permit.give_back(used_tokens):
            self.health.left(deployment.id, trial=admitted.trial)
            self.wake(deployment.group)

    def wake(self, group: str) -> None:
        """Something changed for a group: those who wait choose again."""
        if line := self._lines.get(group):
            line.wake()

    def _decide(
        self, group: Group, facts: RequestFacts, now: float, *, early: bool = False
    ) -> Decision:
        health, random, bridge = self.health, self.random, self.bridge
        return candidates(
            group, facts, health=health, now=now, random=random, bridge=bridge, early=early
        )

    def _opens_in(self, group: Group, facts: RequestFacts) -> float | None:
        """Seconds until the next window opens or the next rest ends, if any does by itself."""
        now, tokens = self.clock(), facts.prompt_tokens + facts.max_tokens
        windows = (self.limits.opens_in(m, now, tokens) or 0.0 for m in group.members)
        return min((s for s in (*windows, *self.rests(group)) if 0 < s < math.inf), default=None)
