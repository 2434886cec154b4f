"""Health: which deployments rest, and which may be tried again.

    state     when                                      a request may use it
    well      nothing, or too few failures              yes
    resting   more than `allowed_fails` in a minute,    no (an early trial, if nothing else serves
              or a failed trial, or by Retry-After      and the rest is not the engine's own word)
    unproven  a rest by count is over, no success yet   one at a time: the trial

Health is per deployment: a bad model does not rest its neighbours on one address. The caller gives
the time (seconds on a steady clock); state lives by deployment id and so outlives a reload.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from gateway.config.config import Deployment

FAILURE_WINDOW_S = 60.0


@dataclass(slots=True)
class _State:
    failures: deque[float] = field(default_factory=deque)
    rests_until: float = 0.0
    by_own_word: bool = False  # the engine named the time: not tried early
    unproven: bool = False
    trial: bool = False  # a trial is in flight


class Health:
    """What is known of each deployment. One serves the whole process."""

    def __init__(self) -> None:
        self._states: dict[str, _State] = {}

    def rests(self, deployment_id: str, now: float) -> float | None:
        """Seconds left of its rest (0.0 while its trial is in flight), or None if it may serve."""
        state = self._states.get(deployment_id)
        if state is None:
            return None
        if state.rests_until > now:
            return state.rests_until - now
        return 0.0 if state.trial else None

    def may_try_early(self, deployment_id: str) -> bool:
        """True if it rests by the gateway's own count and no trial of it is in flight."""
        state = self._states.get(deployment_id)
        return state is not None and not state.by_own_word and not state.trial

    def begin(self, deployment_id: str, now: float) -> bool:
        """An attempt starts; True if it is a trial, which must end in one of the calls below."""
        state = self._states.get(deployment_id)
        if state is None or not (state.unproven or state.rests_until > now):
            return False
        state.trial = True
        return True

    def succeeded(self, deployment_id: str, *, trial: bool) -> None:
        """It answered. A trial makes it well again, also if its rest has not run out."""
        if trial:
            self._states.pop(deployment_id, None)

    def left(self, deployment_id: str, *, trial: bool) -> None:
        """An attempt ended without a verdict, such as a client that left."""
        state = self._states.get(deployment_id)
        if state is not None and trial:
            state.trial = False

    def failed(self, deployment: Deployment, now: float) -> bool:
        """Count one failure; True if the deployment rests from now on."""
        state = self._states.setdefault(deployment.id, _State())
        state.failures.append(now)
        while state.failures[0] <= now - FAILURE_WINDOW_S:
            state.failures.popleft()
        was_trial, state.trial = state.trial, False
        if not was_trial and len(state.failures) <= deployment.allowed_fails:
            return False
        state.unproven = True
        _rest(state, now + deployment.cooldown_s, by_own_word=False)
        return True

    def rest(self, deployment_id: str, now: float, seconds: float, *, by_own_word: bool) -> None:
        """Rest it without counting: the engine named a time, or is loading its model."""
        state = self._states.setdefault(deployment_id, _State())
        state.trial = False
        _rest(state, now + seconds, by_own_word=by_own_word)


def _rest(state: _State, until: float, *, by_own_word: bool) -> None:
    if until > state.rests_until:  # a second failure never shortens a rest
        state.rests_until, state.by_own_word = until, by_own_word
