"""The slot on disk: what the next process goes on with, and what other programs may read."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import structlog

from serving.slot.journal import ACTIVE, STATE, Journal
from serving.slot.plain import plain, restored
from serving.slot.state import Slot

_log = structlog.get_logger("slot")


class Notes:
    """Writes the slot when something changed that a crash must not take away."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._saved: Any = None

    def recall(self) -> Slot:
        """What the last process left; a new slot where nothing is left, or nothing readable."""
        data = self._journal.read(STATE)
        if data is None:
            return Slot()
        try:
            return restored(data)
        except ValueError as error:
            _log.warning("state is left out", reason=str(error))
            return Slot()

    def save(self, slot: Slot, active: dict[str, Any]) -> None:
        """Note it, unless only time, leases and promises changed: no request waits for the disk.

        Leases are left out: their callers renew them with the next process, and one that was given
        back meanwhile must not hold up a swap.
        """
        kept = (slot.phase, slot.run, slot.wish, slot.failures, slot.loads)
        if kept == self._saved:
            return
        self._saved = kept
        self._journal.write(STATE, plain(replace(slot, leases={})))
        self._journal.write(ACTIVE, active)
