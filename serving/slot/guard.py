"""What is looked at again and again: memory, and the size of the engine's log.

Low memory is reported. The engine is stopped for it only where its recipe says
`on_low_memory: stop`; its log is kept, as always.
"""

from __future__ import annotations

import asyncio
from dataclasses import asdict
from pathlib import Path
from typing import Any

import structlog

from serving.slot import keep, memory
from serving.slot.actor import Actor

_log = structlog.get_logger("slot")
_SERVES = ("starting", "ready", "draining")


class Guard:
    """The watch over one slot's memory; `run` goes on until cancelled."""

    def __init__(self, actor: Actor) -> None:
        self._actor = actor
        self._settings = actor.settings.memory
        self._proc = Path(actor.settings.host.proc)
        self._last: memory.Memory | None = None
        self._verdict: memory.Verdict = "well"

    async def run(self) -> None:
        """Look, report a change, act where the recipe wants it."""
        while True:
            self.look()
            self._rotate()
            await asyncio.sleep(self._settings.every_s)  # the pause between two looks

    def look(self) -> None:
        """One look."""
        seen = memory.look(self._proc)
        self._last = seen
        if seen is None:
            return
        floor = memory.Floor(
            low_gib=self._settings.low_gib, pressure_full=self._settings.pressure_full
        )
        verdict = memory.judge(seen, floor)
        if verdict != self._verdict:
            self._verdict = verdict
            _log.warning(
                "memory",
                verdict=verdict,
                available_gib=round(seen.available_gib, 1),
                full_avg10=seen.full_avg10,
                recipe=self._actor.slot.holder,
            )
        if verdict == "low":
            self._act(seen)

    def _act(self, seen: memory.Memory) -> None:
        slot = self._actor.slot
        recipe = self._actor.shelf.last(slot.holder)
        if slot.phase in _SERVES and recipe is not None and recipe.on_low_memory == "stop":
            reason = f"memory is low ({seen.available_gib:.1f} GiB available): the guard stopped it"
            _log.error("out of memory guard", recipe=recipe.id, reason=reason)
            self._actor.low_memory(reason)

    def _rotate(self) -> None:
        holder = self._actor.room.holder
        if holder is not None and holder.mark.log and keep.rotate(Path(holder.mark.log)):
            _log.info("log rotated", log=Path(holder.mark.log).name)

    def status(self) -> dict[str, Any]:
        """The last look, for `status`."""
        if self._last is None:
            return {"verdict": "unknown"}
        return {"verdict": self._verdict, **{k: _round(v) for k, v in asdict(self._last).items()}}


def _round(value: float | None) -> float | None:
    return None if value is None else round(value, 2)
