"""What happens to a slot (events), and what is to be done about it (effects).

Whoever acts sends an event into `step`, keeps the slot that comes back, and carries out the effects
in their order. Reports about an engine carry the `run` of the effect that they answer.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from serving.slot.state import Lease, Overrides

Code = Literal["loading", "swapping", "not_loaded", "failed", "full", "waited"]

# -- events: callers ---------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """A caller asks for a lease, on a recipe or on ACTIVE. Answered by one Grant or Refuse."""

    id: str  # unique; becomes the lease's id
    recipe: str
    may_swap: bool
    wait_s: float
    holder: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Left:
    """A caller went away: its place in the line is free, or the lease it was just granted."""

    id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GiveBack:
    """A caller is done with its lease. Ask `ending` before it what to answer."""

    lease: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Renew:
    """A caller still uses a lease: it lives on if it is in `Slot.leases` afterwards, or is lost.

    One that the slot forgot or let expire is taken up again if its recipe is still the holder.
    """

    lease: str
    recipe: str
    holder: str = ""


# -- events: the engine --------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Ready:
    """The engine of this run serves: health, the right model and a smoke completion."""

    run: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StartFailed:
    """The engine could not be started, ended, or was not ready in time. It may still be there."""

    run: int
    reason: str
    log_tail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Died:
    """The engine's main process ended by itself. Others of its group may still be there."""

    run: int
    reason: str
    log_tail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gone:
    """Nothing of this run is left: the whole process group, the container. After Stop or Kill."""

    run: int


# -- events: the operator, the start of the control plane, time ----------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Up:
    """The operator wants this recipe next. With force: now, whatever runs or loads."""

    recipe: str
    force: bool = False
    overrides: Overrides = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Down:
    """The operator wants the slot empty: a load is stopped, leases are waited for unless forced."""

    force: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundNothing:
    """At the control plane's start: no engine runs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundRecipe:
    """At the control plane's start: this recipe's engine runs. It is adopted, as `Slot.run`.

    If it is not ready yet, Ready or StartFailed follows as after a start.
    """

    recipe: str
    ready: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundStranger:
    """At the control plane's start: something runs that no recipe names. It is stopped first."""

    what: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Tick:
    """Time has passed, nothing else."""


Event = (
    Ask
    | Left
    | GiveBack
    | Renew
    | Ready
    | StartFailed
    | Died
    | Gone
    | Up
    | Down
    | FoundNothing
    | FoundRecipe
    | FoundStranger
    | Tick
)

# -- effects -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """Start this engine. The slot is empty. Ready, StartFailed or Died follows."""

    recipe: str
    run: int
    overrides: Mapping[str, int | str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stop:
    """Ask the engine to stop, politely. Gone follows, or this slot says Kill."""

    recipe: str  # the stranger's text, if `stranger`
    run: int
    stranger: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Kill:
    """End the engine and all that belongs to it. Gone follows; else it is said again."""

    recipe: str
    run: int
    stranger: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """The waiting caller has its lease."""

    waiter: str
    lease: Lease


@dataclass(frozen=True, slots=True, kw_only=True)
class Refuse:
    """The caller gets no lease, and is told when to come back."""

    waiter: str
    code: Code
    reason: str
    retry_after_s: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WakeAt:
    """Send a Tick at this time of the caller's clock. Each step says it anew."""

    at: float


Effect = Start | Stop | Kill | Grant | Refuse | WakeAt
