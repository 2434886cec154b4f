"""The slot as a value: which engine is in it, who uses it, who waits, and what is remembered.

    phase      in the slot                              leaves it when
    stopped    nothing                                  somebody asks -> starting
    starting   an engine that does not answer yet       it is ready; it failed -> stopping
    ready      an engine that serves                    another's turn -> draining; dead -> stopping
    draining   the same; newcomers queue                idle or late -> stopping; or -> ready
    stopping   an engine told to go, or dead            it is gone -> starting, stopped or failed
    failed     nothing, and the last start failed       as stopped

Times are seconds on the slot's own clock, `Slot.at`: it never goes back and never leaps
(`serving/slot/step.py`). To show an age, send a `Tick` and subtract from `at`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

ACTIVE: Final = "active"  # asked for instead of a recipe: whatever is loaded
PAST: Final = 9  # loads, drains and stops that are remembered; their median is the estimate

Phase = Literal["stopped", "starting", "ready", "draining", "stopping", "failed"]
Ending = Literal["given_back", "evicted", "engine_died", "expired", "unknown"]
Overrides = Mapping[str, int | str]  # the operator's ctx, kv and preset for one start


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """The limits of one slot, from its file."""

    max_wait_s: float = 600.0  # nobody waits longer
    max_waiting: int = 64
    min_residency_s: float = 20.0  # a model that somebody waited for stays this long after ready
    promised_most_s: float = 60.0  # ... or until a refused caller was told to return, up to this
    drain_s: float = 120.0  # leases may run so long after a swap was decided
    stop_grace_s: float = 20.0  # from the polite stop to the kill, and from kill to kill
    stop_graces_s: Mapping[str, float] = field(default_factory=dict)  # by recipe
    retry_first_s: float = 10.0  # the pause after a failed start; it doubles with each
    retry_most_s: float = 600.0
    proven_s: float = 60.0  # an engine that served so long is no failed start when it dies
    lease_s: float = 30.0  # a lease lives so long without renewal
    adopted_grace_s: float = 15.0  # callers renew in this time; nothing is evicted
    unknown_load_s: float = 30.0  # the guess for a recipe that was never loaded
    come_back: bool = True  # start the last holder again when it died and nobody asks for another
    # A clock that went further between two events was set, or the host slept. Well below the life
    # of a lease, or a leap would end leases whose streams run.
    leap_s: float = 15.0

    def grace_s(self, holder: str) -> float:
        """How long this engine may take to stop."""
        return self.stop_graces_s.get(holder, self.stop_grace_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """The right to send one request to the engine in the slot. Its id is that of the ask."""

    id: str
    recipe: str  # of the engine it was granted on, never ACTIVE
    holder: str  # who has it, as text for status
    since: float
    expires: float
    waited_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiter:
    """A caller that waits for a lease."""

    id: str
    recipe: str  # or ACTIVE
    may_swap: bool
    holder: str
    since: float
    deadline: float
    at_most: bool  # the deadline is the slot's own maximum, not the caller's
    turn: int  # order of arrival, shared with promises


@dataclass(frozen=True, slots=True, kw_only=True)
class Promise:
    """Callers were refused and told when to return: their recipe keeps its place in the line."""

    recipe: str
    since: float
    back_by: float  # the latest moment that one of them was told
    turn: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What the operator asked for and is not done yet: a recipe, or None for an empty slot."""

    recipe: str | None
    force: bool
    overrides: Overrides = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """Starts of a recipe that failed, one after the other."""

    count: int
    not_before: float  # until then it is not started and asks for it are refused
    reason: str
    log_tail: str
    at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """A lease that the slot ended, so that its caller can be told why."""

    lease: str
    how: Ending
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Slot:
    """Everything that the slot knows. Only `step` makes a new one from it."""

    phase: Phase = "stopped"
    holder: str | None = None  # None only if the slot is known to be empty
    run: int = 0  # the number of the latest start; reports about another one change nothing
    stranger: bool = False  # the holder is no recipe, but something found that must go
    overrides: Overrides = field(default_factory=dict)  # of the holder
    target: str | None = None  # what is to be started after the holder is gone
    since: float = 0.0  # of the phase
    reason: str = ""  # of the last start, swap or stop
    looked: bool = False  # False until a Found event says what runs: nothing is started before

    leases: Mapping[str, Lease] = field(default_factory=dict)
    waiters: tuple[Waiter, ...] = ()  # in order of arrival
    promises: Mapping[str, Promise] = field(default_factory=dict)  # by recipe
    wish: Wish | None = None
    comes_back: str | None = None  # started when the slot is empty and nobody asks for another

    ready_at: float = 0.0  # of the holder
    kept_until: float = 0.0  # the holder's residency
    grace_until: float = 0.0  # after an adoption
    drain_until: float = 0.0
    kill_at: float = 0.0
    broken: bool = False  # the engine that is being stopped failed or died

    failures: Mapping[str, Failure] = field(default_factory=dict)  # by recipe
    loads: Mapping[str, tuple[float, ...]] = field(default_factory=dict)  # seconds, latest last
    drains: tuple[float, ...] = ()  # seconds of the last ones, of any recipe, with leases
    stops: tuple[float, ...] = ()  # from the polite stop until it was known to be gone
    ended: tuple[Ended, ...] = ()  # the latest ones
    turns: int = 0  # asks so far

    at: float = 0.0  # the slot's own clock
    seen: float | None = None  # what the caller's clock said then

    @property
    def engine(self) -> str:
        """The holder, where the phase says that there is one."""
        if self.holder is None:
            raise RuntimeError(f"a slot that is {self.phase} has no holder")
        return self.holder
