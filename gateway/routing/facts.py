"""What goes into a decision, what comes out of it, and what admission makes of it."""

from __future__ import annotations

from dataclasses import dataclass

from gateway.config.config import Deployment, Dialect
from gateway.routing.limits import Permit


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestFacts:
    """What routing may know of a request."""

    dialect: Dialect
    prompt_tokens: int = 0  # a low estimate; 0 where it cannot be told: never left out for it
    max_tokens: int = 1000  # what `tpm` reserves for the answer
    fallbacks: bool = True  # False where the request itself asks for none
    caller: str | None = None  # whose requests stay on one member, where the group has affinity


@dataclass(frozen=True, slots=True)
class Candidate:
    """A deployment that may serve this request, and why."""

    deployment: Deployment
    reason: str


@dataclass(frozen=True, slots=True)
class Decision:
    """Candidates in order, and (deployment, reason) for each that was left out."""

    candidates: tuple[Candidate, ...]
    left_out: tuple[tuple[Deployment, str], ...] = ()
    too_long: bool = False  # somebody was left out for the window, and for nothing else


@dataclass(frozen=True, slots=True)
class Admitted:
    """A permit, the candidate it is for, and whether the attempt is a trial."""

    permit: Permit
    candidate: Candidate
    trial: bool


class Wait:
    """How long a request may still wait: one budget over all its groups. Seconds."""

    def __init__(self, left_s: float) -> None:
        self.left_s, self.waited_s = left_s, 0.0

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
