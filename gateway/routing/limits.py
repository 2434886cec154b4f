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
    left: bool = False  # it has left the window, and its tokens with it


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
            gone = self.reserved.popleft()
            gone.left = True
            self.tokens -= gone.tokens


class Permit:
    """The right to run one request on one deployment."""

    __slots__ = ("_reserved", "_use", "deployment")

    def __init__(self, deployment: Deployment, use: _Use, reserved: _Reserved | None) -> None:
        self.deployment = deployment
        self._use: _Use | None = use
        self._reserved = reserved  # None where there is no tpm

    def give_back(self, used_tokens: int | None = None) -> bool:
        """Give it back, settling the reservation; False if that was done before."""
        use, self._use = self._use, None
        if use is None:
            return False
        use.in_flight -= 1
        # A reservation that has left the window took its count along. A mark says so: to look for
        # it among the others would cost each request the length of its minute.
        reserved = self._reserved
        if used_tokens is not None and reserved is not None and not reserved.left:
            use.tokens += used_tokens - reserved.tokens
            reserved.tokens = used_tokens
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
        if _opens(deployment, use, now, tokens) is not None:
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
        """None if a permit is free; else seconds until its window opens.

        Infinite if it is only full: then a permit given back opens it.
        """
        return _opens(deployment, self._uses.get(deployment.id) or _Use(), now, tokens)

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


def _opens(deployment: Deployment, use: _Use, now: float, tokens: int) -> float | None:
    parallel, rpm, tpm = deployment.max_parallel_requests, deployment.rpm, deployment.tpm
    wait = math.inf if parallel is not None and use.in_flight >= parallel else None
    if rpm is None and tpm is None:
        return wait
    use.forget(now)
    opens: list[float] = []
    if rpm is not None and len(use.calls) >= rpm:
        opens.append(use.calls[-rpm])
    # A request larger than the whole budget runs alone: the window must be empty for it.
    if tpm is not None and 0 < use.tokens > tpm - tokens:
        opens.append(_until_free(use, max(tpm - tokens, 0)))
    return max(opens) + WINDOW_S - now if opens else wait


def _until_free(use: _Use, room: int) -> float:
    """When the reservation was made whose leaving brings the count down to `room` tokens."""
    left = use.tokens
    for reserved in use.reserved:
        left -= reserved.tokens
        if left <= room:
            return reserved.at
    return use.reserved[-1].at
