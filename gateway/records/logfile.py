"""The activity log on disk: whole lines appended, rotated, and bounded by size and by age.

No thread and no queue here: `activity.py` calls this from its writer. What holds, whatever
happens: all files together never exceed `max_bytes`; a line is in the log whole or not at all;
a line that was refused may be given again.

A last line without its line end (the process was killed while writing) is settled at open:
where it is a whole record, its line end is added, else it is cut off. It never was a record
that anybody could read.
"""

from __future__ import annotations

import contextlib
import glob
import os
import shutil
import stat
from collections.abc import Sequence
from pathlib import Path

import structlog

from gateway.config.config import Activity
from gateway.records import segments
from gateway.records.lock import FileLock, RecordsError

# Rotating away an eighth at a time keeps at least seven eighths of `max_bytes` readable.
SEGMENTS = 8
_DAY_S = 86_400.0
_BLOCK = 65_536

log = structlog.get_logger("activity")


class LogFile:
    """The only writer of the log at `activity.path`. Errors are OSError, to be tried again."""

    def __init__(self, activity: Activity) -> None:
        self.path = segments.real_path(activity.path)
        self.max_bytes = activity.max_bytes
        self._segment_bytes = max(1, activity.max_bytes // SEGMENTS)
        self._max_age_s = activity.max_age_days * _DAY_S
        self._lock = FileLock(self.path)
        self._fd: int | None = None
        self._size = 0

    def open(self, now: float) -> None:
        """Take the lock, settle a torn last line, drop what is too old or too much.

        RecordsError where another process writes this log or the file is not a log.
        """
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._lock.take()
            for left in self.path.parent.glob(f"{glob.escape(self.path.name)}.*.new"):
                left.unlink()  # we were killed while cutting a file's head
            self._open_active()
            self.expire(now)
        except OSError as error:
            self.close()
            raise RecordsError(
                f"activity.path {self.path} cannot be written: {error.strerror}"
            ) from error
        except RecordsError:
            self.close()
            raise

    def close(self) -> None:
        """Let go of the file and of the lock; again is fine."""
        if self._fd is not None:
            with contextlib.suppress(OSError):
                os.fsync(self._fd)
        self._drop_fd()
        self._lock.close()

    def append(self, lines: Sequence[bytes]) -> int:
        """Write lines (each ends in a line end, none above `max_bytes`); how many are in.

        Fewer than given, or an OSError when none: the disk took no more. The rest may be
        given again; nothing of it is in the log.
        """
        self._follow()
        done = 0
        try:
            while done < len(lines):
                if self._size and self._size + len(lines[done]) > self._segment_bytes:
                    self._rotate()
                end = self._fitting(lines, done)
                self._write(b"".join(lines[done:end]))
                done = end
        except OSError:
            if done == 0:
                raise
        return done

    def expire(self, now: float) -> None:
        """Drop lines older than `max_age_days`, and the oldest files above `max_bytes`.

        Age goes by the time in the line: a copied or touched file grows no younger.
        """
        cutoff = now - self._max_age_s
        if _starts_before(self.path, cutoff) or self._size > self._segment_bytes:
            self._rotate()
        for _, path in segments.rotated(self.path):
            if not _starts_before(path, cutoff):
                break
            _cut_head(path, segments.first_fresh_offset(path, cutoff))
        for _, path in segments.rotated(self.path):
            if (size := path.stat().st_size) > self.max_bytes:  # `max_bytes` was lowered
                _cut_head(path, _line_start(path, size - self.max_bytes * 3 // 4))
        self._make_room(0)

    def _fitting(self, lines: Sequence[bytes], start: int) -> int:
        size = self._size + len(lines[start])
        end = start + 1
        while end < len(lines) and size + len(lines[end]) <= self._segment_bytes:
            size += len(lines[end])
            end += 1
        return end

    def _write(self, data: bytes) -> None:
        fd = self._fd if self._fd is not None else self._open_active()
        self._make_room(len(data))
        rest = memoryview(data)
        try:
            while rest:
                rest = rest[os.write(fd, rest) :]
        except OSError:
            # Half a line must not stay: what follows would be glued to it.
            try:
                os.ftruncate(fd, self._size)
            except OSError:
                self._drop_fd()  # opening again settles the torn line
            raise
        self._size += len(data)

    def _make_room(self, more: int) -> None:
        files = [(path, path.stat().st_size) for _, path in segments.rotated(self.path)]
        total = self._size + more + sum(size for _, size in files)
        for path, size in files:
            if total <= self.max_bytes:
                return
            path.unlink()
            total -= size

    def _rotate(self) -> None:
        numbers = [number for number, _ in segments.rotated(self.path)]
        self.path.rename(segments.rotated_name(self.path, max(numbers, default=0) + 1))
        self._drop_fd()
        self._open_active()

    def _follow(self) -> None:
        """Open the file anew where somebody moved, deleted or emptied it."""
        if self._fd is not None:
            try:
                here, ours = self.path.stat(), os.fstat(self._fd)
            except FileNotFoundError:
                self._drop_fd()
            else:
                if (here.st_dev, here.st_ino) != (ours.st_dev, ours.st_ino):
                    self._drop_fd()
                self._size = ours.st_size
        if self._fd is None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._open_active()

    def _open_active(self) -> int:
        with contextlib.suppress(FileNotFoundError):
            if not stat.S_ISREG(self.path.stat().st_mode):
                raise RecordsError(f"activity.path {self.path} is not a regular file")
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
        fd = os.open(self.path, flags, 0o600)
        try:
            _check_is_log(fd, self.path)
            _settle_last_line(fd, self.path)
            self._size = os.fstat(fd).st_size
        except BaseException:  # raised again; the descriptor must not leak
            os.close(fd)
            raise
        self._fd = fd
        return fd

    def _drop_fd(self) -> None:
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None
        self._size = 0


def _starts_before(path: Path, cutoff: float) -> bool:
    with path.open("rb") as file:
        for line in file:
            time = segments.line_time(line)
            if time is not None:
                return time < cutoff
    return False


def _check_is_log(fd: int, path: Path) -> None:
    # The last line is about to be cut and old ones deleted: never do that to a file that a
    # slip of the pen put here, such as the configuration itself.
    head = os.pread(fd, _BLOCK, 0)
    if head.lstrip(b"\0\n")[:7] in (b"", b'{"id":"'):
        return
    if not any(segments.line_time(line) is not None for line in head.splitlines()):
        raise RecordsError(
            f"activity.path {path} holds something else than activity records: "
            "name another file, or move this one away"
        )


def _settle_last_line(fd: int, path: Path) -> None:
    size = os.fstat(fd).st_size
    start = _last_line_start(fd, size)
    if start == size:
        return
    torn = os.pread(fd, size - start, start)
    if segments.parse(torn) is not None:
        os.write(fd, b"\n")
        return
    os.ftruncate(fd, start)
    log.warning("torn_line_cut", path=str(path), torn_bytes=size - start)


def _last_line_start(fd: int, size: int) -> int:
    """Where the text after the last line end starts: `size` where nothing follows it."""
    end = size
    while end > 0:
        start = max(0, end - _BLOCK)
        found = os.pread(fd, end - start, start).rfind(b"\n")
        if found >= 0:
            return start + found + 1
        end = start
    return 0


def _line_start(path: Path, offset: int) -> int:
    """Where the first line at or behind `offset` starts."""
    with path.open("rb") as file:
        file.seek(max(0, offset - 1))
        file.readline()
        return file.tell()


def _cut_head(path: Path, offset: int | None) -> None:
    """Keep what starts at `offset`; None: nothing is worth keeping."""
    if offset is None:
        path.unlink()
        return
    if offset == 0:
        return
    new = path.with_name(path.name + ".new")
    with path.open("rb") as source, new.open("wb") as target:
        os.fchmod(target.fileno(), 0o600)
        source.seek(offset)
        shutil.copyfileobj(source, target)
    new.replace(path)
