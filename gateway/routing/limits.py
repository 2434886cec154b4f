"""Limits: permits for `max_parallel_requests`, `rpm` and `tpm`, exact over any 60 seconds.

A permit is the right to run one request on a deployment. It is taken before an attempt is sent and
given back exactly once. `rpm` counts attempts; `tpm` reserves an estimate and settles it with the
engine's usage. The caller gives the time; counts live by deployment id and so outlive a reload.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, field

from gateway.config.config import Deployment

WINDOW_S = 60.0


@dataclass(slots=True, eq=False)
class _Reserved:
    at: float
    tokens: int


@dataclass(slots=True)
class _Use:
    in_flight: int = 0
    calls: deque[float] = field(default_factory=deque)
    reserved: deque[_Reserved] = field(default_factory=deque)
    tokens: int = 0

    def forget(self, now: float) -> None:
        """Drop what has left the window."""
        while self.calls and self.calls[0] <= now - WINDOW_S:
            self.calls.popleft()
        while self.reserved and self.reserved[0].at <= now - WINDOW_S:
            self.tokens -= self.reserved.popleft().tokens


class Permit:
    """The right to run one request on one deployment."""

    __slots__ = ("_reserved", "_use", "deployment")

    def __init__(self, deployment: Deployment, use: _Use, reserved: _Reserved | None) -> None:
        self.deployment = deployment
        self._use: _Use | None = use
        self._reserved = reserved

    def give_back(self, used_tokens: int | None = None) -> bool:
        """Give it back, settling the reservation; False if that was done before."""
        use, self._use = self._use, None
        if use is None:
            return False
        use.in_flight -= 1
        if self._reserved is not None and used_tokens is not None:
            if self._reserved in use.reserved:  # else it has left the window, and its count too
                use.tokens += used_tokens - self._reserved.tokens
                self._reserved.tokens = used_tokens
        return True


class Limits:
    """Who runs what, and how much each deployment's minute has left."""

    def __init__(self) -> None:
        self._uses: dict[str, _Use] = {}

    def take(self, deployment: Deployment, now: float, tokens: int) -> Permit | None:
        """A permit, or None while the deployment is at one of its caps."""
        use = self._uses.get(deployment.id)
        if use is None:
            use = self._uses[deployment.id] = _Use()
        if self._opens(deployment, use, now, tokens) is not None:
            return None
        use.in_flight += 1
        if deployment.rpm is not None:
            use.calls.append(now)
        reserved = None
        if deployment.tpm is not None:
            reserved = _Reserved(now, tokens)
            use.reserved.append(reserved)
            use.tokens += tokens
        return Permit(deployment, use, reserved)

    def opens_in(self, deployment: Deployment, now: float, tokens: int) -> float | None:
        """None if a permit is free; else seconds until its window opens, infinite if it is only
        full (a permit given back opens it)."""
        return self._opens(deployment, self._uses.get(deployment.id) or _Use(), now, tokens)

    def _opens(self, deployment: Deployment, use: _Use, now: float, tokens: int) -> float | None:
        parallel, rpm, tpm = deployment.max_parallel_requests, deployment.rpm, deployment.tpm
        full = parallel is not None and use.in_flight >= parallel
        if rpm is None and tpm is None:
            return math.inf if full else None
        use.forget(now)
        waits = [0.0]
        if rpm is not None and len(use.calls) >= rpm:
            waits.append(use.calls[-rpm] + WINDOW_S - now)
        # A request larger than the whole budget runs alone: the window must be empty for it.
        if tpm is not None and use.tokens > 0 and use.tokens + tokens > tpm:
            waits.append(_until_free(use, tpm - tokens) + WINDOW_S - now)
        if full:
            return max(waits) if len(waits) > 1 else math.inf
        return max(waits) if len(waits) > 1 else None

    def in_flight(self, deployment_id: str) -> int:
        """Requests that hold a permit now."""
        use = self._uses.get(deployment_id)
        return use.in_flight if use is not None else 0

    def window(self, deployment_id: str, now: float) -> tuple[int, int]:
        """Attempts and tokens counted in the last 60 seconds (only where a cap asks for it)."""
        use = self._uses.get(deployment_id)
        if use is None:
            return 0, 0
        use.forget(now)
        return len(use.calls), use.tokens


def _until_free(use: _Use, room: int) -> float:
    """When enough of the oldest reservations have left for `room` tokens to remain."""
    left = use.tokens
    for reserved in use.reserved:
        left -= reserved.tokens
        if left <= max(room, 0):
            return reserved.at
    return use.reserved[-1].at
