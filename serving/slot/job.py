"""What the operator asked for last, and what became of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from serving.slot.state import Slot

State = Literal["waiting", "loading", "ready", "failed", "stopping", "stopped", "replaced"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One switch or stop: `recipe` is None for an empty slot."""

    id: str
    recipe: str | None
    at: float  # of the slot's clock, when it was asked for

    def as_data(self, slot: Slot) -> dict[str, Any]:
        """With its state now."""
        failure = slot.failures.get(self.recipe or "")
        state = _state(self, slot)
        return {
            "id": self.id,
            "recipe": self.recipe,
            "state": state,
            "reason": failure.reason if state == "failed" and failure else "",
        }


def _state(job: Job, slot: Slot) -> State:
    """1. Not begun yet. 2. It is in the slot. 3. It failed. 4. Something else came after it."""
    if slot.wish is not None and slot.wish.recipe == job.recipe:  # 1.
        return "waiting" if job.recipe else "stopping"
    if job.recipe is None:
        return "stopped" if slot.holder is None else "replaced"
    if slot.holder == job.recipe and slot.phase in ("ready", "draining"):  # 2.
        return "ready"
    failure = slot.failures.get(job.recipe)
    if failure is not None and failure.at >= job.at:  # 3.
        return "failed"
    if slot.holder == job.recipe and slot.phase == "starting":  # 2.
        return "loading"
    return "waiting" if slot.target == job.recipe else "replaced"  # 4.
