"""What goes into a decision, what comes out of it, and what admission makes of it.

Structs and not dataclasses: several are made for each request, and these are made in C.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from gateway.config.config import Deployment, Dialect
from gateway.routing.limits import Permit


class RequestFacts(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What routing may know of a request."""

    dialect: Dialect
    prompt_tokens: int = 0  # a low estimate; 0 where it cannot be told: never left out for it
    max_tokens: int = 1000  # what `tpm` reserves for the answer
    fallbacks: bool = True  # False where the request itself asks for none
    callers: Mapping[str, str] = {}  # group with affinity -> whose requests stay on one member


class Candidate(msgspec.Struct, frozen=True, gc=False):
    """A deployment that may serve this request, and why."""

    deployment: Deployment
    reason: str


class Decision(msgspec.Struct, frozen=True, gc=False):
    """Candidates in order, and (deployment, reason) for each that was left out."""

    candidates: tuple[Candidate, ...]
    left_out: tuple[tuple[Deployment, str], ...] = ()
    too_long: bool = False  # somebody was left out for the window, and for nothing else


class Admitted(msgspec.Struct, frozen=True, gc=False):
    """A permit, the candidate it is for, and whether the attempt is a trial."""

    permit: Permit
    candidate: Candidate
    trial: bool


class Wait(msgspec.Struct, gc=False):
    """How long a request may still wait: one budget over all its groups. Seconds."""

    left_s: float = 0.0
    waited_s: float = 0.0

    def spent(self, seconds: float) -> None:
        """It has waited that long."""
        self.left_s -= seconds
        self.waited_s += seconds


class NoCandidate(Exception):
    """Nobody in the group may serve this request now."""

    def __init__(self, decision: Decision) -> None:
        self.decision = decision


class Full(Exception):
    """The group is saturated, and the wait is over or not allowed. `opens_in_s` may be infinite."""

    def __init__(self, opens_in_s: float) -> None:
        self.opens_in_s = opens_in_s
