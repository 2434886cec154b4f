"""What must survive a crash: JSON files that are replaced whole, and the lock of the one owner."""

from __future__ import annotations

import fcntl
import json
import os
from pathlib import Path
from typing import Any, Final

from serving.errors import Unusable

STATE: Final = "state.json"  # loads, failures: what the next process goes on with
ACTIVE: Final = "active.json"  # what is loaded, for other programs on this machine
ENGINE: Final = "engine.json"  # how to find what was started
_LOCK: Final = "lock"


class Journal:
    """The files of one slot, in `run/slot`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lock: int | None = None

    def own(self) -> None:
        """Become the one control plane of this folder until the process ends. Raises Unusable."""
        self._folder.mkdir(parents=True, exist_ok=True)
        # Not inherited by engines: they outlive us, and the lock must not.
        self._lock = os.open(self._folder / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(self._lock)
            self._lock = None
            raise Unusable(
                f"another control plane works in {self._folder}: stop it, or set `run` anew"
            ) from error

    def release(self) -> None:
        """Give the folder back."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def write(self, name: str, data: Any) -> None:
        """Replace the file whole: a crash leaves the old one or the new one."""
        self._folder.mkdir(parents=True, exist_ok=True)
        draft = self._folder / f"{name}.new"
        with draft.open("w") as file:
            json.dump(data, file, indent=1)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(self._folder / name)

    def read(self, name: str) -> Any:
        """What stands in the file; None where there is none, or none that can be read."""
        try:
            return json.loads((self._folder / name).read_text())
        except (OSError, ValueError):
            return None

    def remove(self, name: str) -> None:
        """Take the file away, if it is there."""
        (self._folder / name).unlink(missing_ok=True)
