"""The last 60 seconds of one deployment: what runs, what was sent, which tokens are reserved."""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, field

import msgspec

from gateway.config.config import Deployment

WINDOW_S = 60.0
MOST_KEPT = 10_000  # attempts, where no cap reads them: far above what a cap would let through


class Reserved(msgspec.Struct, gc=False):
    """Tokens that one request was let in with, until its usage is known.

    A minute may hold a hundred thousand of them: the collector need not visit what has no parts.
    """

    at: float
    tokens: int
    left: bool = False  # it has left the window, and its tokens with it


@dataclass(slots=True)
class Window:
    """Counts of one deployment. `forget` drops what is older than the window."""

    in_flight: int = 0
    calls: deque[float] = field(default_factory=deque)
    reserved: deque[Reserved] = field(default_factory=deque)
    tokens: int = 0

    def forget(self, now: float) -> None:
        """Drop what has left the window."""
        while self.calls and self.calls[0] <= now - WINDOW_S:
            self.calls.popleft()
        while self.reserved and self.reserved[0].at <= now - WINDOW_S:
            self._forget_first()

    def bound(self) -> None:
        """Keep no more than `MOST_KEPT`: nobody drops here what is old."""
        if len(self.calls) > MOST_KEPT:
            self.calls.popleft()
        if len(self.reserved) > MOST_KEPT:
            self._forget_first()

    def _forget_first(self) -> None:
        gone = self.reserved.popleft()
        gone.left = True
        self.tokens -= gone.tokens

    def opens_in(self, deployment: Deployment, now: float, tokens: int) -> float | None:
        """None if a request with that many tokens may run now; else seconds until it may.

        Infinite if the deployment is only full: then a permit given back opens it.
        """
        parallel, rpm, tpm = deployment.max_parallel_requests, deployment.rpm, deployment.tpm
        wait = math.inf if parallel is not None and self.in_flight >= parallel else None
        if rpm is None and tpm is None:
            return wait
        self.forget(now)
        opens: list[float] = []
        if rpm is not None and len(self.calls) >= rpm:
            opens.append(self.calls[-rpm])
        # A request larger than the whole budget runs alone: the window must be empty for it.
        if tpm is not None and 0 < self.tokens > tpm - tokens:
            opens.append(self._until_free(max(tpm - tokens, 0)))
        return max(opens) + WINDOW_S - now if opens else wait

    def _until_free(self, room: int) -> float:
        """When the reservation was made whose leaving brings the count down to `room` tokens."""
        left = self.tokens
        for reserved in self.reserved:
            left -= reserved.tokens
            if left <= room:
                return reserved.at
        return self.reserved[-1].at
