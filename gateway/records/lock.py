"""One writer a file: an advisory lock beside it, held by the kernel for as long as we live."""

from __future__ import annotations

import contextlib
import fcntl
import os
from pathlib import Path


class RecordsError(Exception):
    """The records cannot be kept as the file asks. The message says why and what to do."""


class FileLock:
    """The right to write `path`, held through `path.lock`. Freed by `close` or by our end.

    The lock file stays behind, empty of meaning: removing it would let two writers in.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._fd: int | None = None

    def take(self) -> None:
        """Take the lock at once; RecordsError names the process that holds it."""
        fd = os.open(f"{self._path}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(fd, 32, 0).decode("ascii", "replace").strip() or "unknown"
            os.close(fd)
            raise RecordsError(
                f"{self._path} is being written by another process (pid {holder}): "
                "one writer a file, so stop that process or set another activity.path"
            ) from None
        except OSError as error:
            os.close(fd)
            raise RecordsError(f"{self._path} cannot be locked: {error.strerror}") from error
        with contextlib.suppress(OSError):  # a full disk takes no pid, and needs none
            os.ftruncate(fd, 0)
            os.pwrite(fd, str(os.getpid()).encode(), 0)
        self._fd = fd

    def close(self) -> None:
        """Give the lock back; again is fine."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None
