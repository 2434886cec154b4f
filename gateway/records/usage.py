"""Usage: roll-ups of the last hour and day, and counters that outlive the log.

`add` counts a record in memory. A thread saves the counters to `usage.json` beside the activity
log every few seconds while they change, and at close. The file is replaced whole, after the log
has taken every record that it counts, so that a kill at any moment counts no record twice.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import structlog

from gateway.records import segments
from gateway.records.backfill import Recounted, recount
from gateway.records.counters import VERSION, Book, last_counted
from gateway.records.lock import FileLock, RecordsError
from gateway.records.record import Record
from gateway.records.rollups import NOBODY, WINDOWS, RollUps, Totals, Window, key_of

SAVE_S = 5.0
COMPLAIN_S = 60.0
RECENT = 50
_AHEAD_S = 60.0
_MAX_PENDING = 256

# The minute and the day a record counts in (None: it is counted there already, or never), then
# its client, model group, tier and task, and the deployment and recipe that served it. Flat: one
# is made for each request, in its path.
_Place = tuple[int | None, str | None, str, str, str, str, str, str]

log = structlog.get_logger("usage")


def usage_path(activity_path: str | Path) -> Path:
    """Where the counters of an activity log are kept."""
    return segments.real_path(activity_path).with_name("usage.json")


def read_book(path: Path) -> Book | None:
    """The counters on disk; None where there are none yet. ValueError where they are damaged."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return None
    try:
        book = msgspec.json.decode(data, type=Book)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise ValueError(str(error)) from error
    if book.version != VERSION:
        raise ValueError(f"version {book.version}, and this release writes {VERSION}")
    return book


class Usage:
    """Counts records. `start` reads what was counted before; `add` is cheap and never fails."""

    def __init__(
        self,
        activity_path: str | Path,
        *,
        flush: Callable[[], object] = lambda: None,
        tier_of: Callable[[str], str | None] = lambda group: None,
        clock: Callable[[], float] = time.time,
        save_s: float = SAVE_S,
    ) -> None:
        """`flush` waits until the log holds every record given so far.

        `tier_of` gives a model group's tier in the file in force (None: not in the file). What a
        fallback served counts under the tier that served it: burst traffic shows as such.
        """
        self.path = usage_path(activity_path)
        self._log_path = segments.real_path(activity_path)
        self._flush = flush
        self._tier_of = tier_of
        self._clock = clock
        self._save_s = save_s
        self._lock = threading.Lock()
        self._file_lock = FileLock(self.path)
        self._book = Book()
        self._rollups = RollUps()
        self._pending: dict[_Place, Totals] = {}
        self._recent: deque[Record] = deque(maxlen=RECENT)
        self._dirty = False
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._complained_at = float("-inf")

    def start(self) -> None:
        """Read the counters and what the log holds beyond them, then keep them saved.

        A damaged file is set aside and counted anew from the log. RecordsError where another
        process keeps the counters in this folder.
        """
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._file_lock.take()
        except OSError as error:
            raise RecordsError(f"{self.path} cannot be written: {error.strerror}") from error
        book = self._load()
        self._book = Book() if book is None else book
        self._count_log()
        self._thread = threading.Thread(target=self._run, name="usage", daemon=True)
        self._thread.start()

    def add(self, record: Record) -> None:
        """Count a record, right after its request ended and it was given to the log."""
        with self._lock:
            self._count(record, self._clock(), in_book=True, in_window=True)
            if len(self._pending) > _MAX_PENDING:
                self._settle()

    def window(self, window: Window) -> dict[str, Any]:
        """Sums of the last hour or day: `total`, and by `clients`, `models`, `tiers`, `tasks`."""
        with self._lock:
            self._settle()
            return self._rollups.read(window, self._clock())

    def recent(self) -> list[Record]:
        """The last records, the youngest first."""
        with self._lock:
            return list(self._recent)[::-1]

    def lifetime(self) -> dict[str, Any]:
        """Counters since `since`, and of each day (UTC)."""
        return self.book().as_data()

    def backfill(self) -> list[Recounted]:
        """Tell older days apart by who served, as far as the log reaches. Again is fine."""
        with self._lock:
            self._settle()
            done = recount(self._book, (record for record, _ in self._log_records()))
            self._dirty |= any(one.taken for one in done)
        return done

    def book(self) -> Book:
        """A copy of the counters, to calculate with."""
        with self._lock:
            self._settle()
            data = msgspec.json.encode(self._book)
        # Outside the lock, which every request takes.
        return msgspec.json.decode(data, type=Book)

    def close(self, timeout_s: float = 5.0) -> None:
        """Save a last time and let go of the file, once nothing more is given to the log."""
        if self._thread is None:
            return
        self._stop.set()
        self._thread.join(timeout_s)
        self._thread = None
        self._file_lock.close()

    def save(self) -> None:
        """Replace `usage.json` by the counters of this moment; OSError leaves the old one."""
        with self._lock:
            if not self._dirty:
                return
            self._dirty = False
            self._settle()
            self._book.updated_at = _utc(self._clock())
            data = msgspec.json.encode(self._book)
        # First the log, then the counters: a record that is counted here and missing there
        # could not be told from one that was never counted.
        self._flush()
        try:
            _replace(self.path, data)
        except OSError:
            self._dirty = True
            raise

    def _run(self) -> None:
        while not self._stop.wait(self._save_s):
            self._try_save()
        self._try_save()

    def _try_save(self) -> None:
        try:
            self.save()
        except OSError as error:
            if time.monotonic() - self._complained_at >= COMPLAIN_S:
                self._complained_at = time.monotonic()
                log.warning("usage_not_saved", path=str(self.path), error=str(error))

    def _load(self) -> Book | None:
        try:
            return read_book(self.path)
        except ValueError as error:
            aside = self.path.with_name(f"usage.json.damaged-{int(self._clock())}")
            with contextlib.suppress(OSError):
                self.path.replace(aside)
            log.warning(
                "usage_rebuilt",
                path=str(self.path),
                set_aside=str(aside),
                error=str(error),
                note="counted anew as far as the activity log reaches",
            )
        except OSError as error:
            raise RecordsError(f"{self.path} cannot be read: {error.strerror}") from error
        return None

    def _count_log(self) -> None:
        """Count what the log holds and the book does not, and build the roll-ups.

        Records were counted in the order of the log, therefore:
        1. what stands behind the last remembered record was not counted, the rest was;
        2. where no remembered record is in the log (rotated away, deleted), the time decides.
        """
        now, counted_until = self._clock(), self._book.through.ended
        last = last_counted(self._book.through, (record for record, _ in self._log_records()))
        for place, (record, ended) in enumerate(self._log_records()):
            in_book = place > last and (last >= 0 or ended > counted_until)
            # A record from the future (a clock that was set back) would fold today away.
            in_window = now - WINDOWS["24h"] <= ended <= now + _AHEAD_S
            self._count(record, ended, in_book=in_book, in_window=in_window)
            if len(self._pending) > _MAX_PENDING:
                self._settle()

    def _count(self, record: Record, ended: float, *, in_book: bool, in_window: bool) -> None:
        """Add a record to the sums of its minute: one addition a request, in its path."""
        minute, day = int(ended) // 60 if in_window else None, record.at[:10] if in_book else None
        tier = self._tier_of(record.group) if record.group is not None else None
        served = (record.deployment or NOBODY, record.recipe or NOBODY)
        key = (minute, day, *key_of(record, tier or record.tier), *served)
        totals = self._pending.get(key)
        if totals is None:
            totals = self._pending[key] = Totals()
        totals.add(record)
        self._recent.append(record)
        if in_book:
            self._book.remember(record, ended)
            self._dirty = True

    def _settle(self) -> None:
        """Move the sums of single minutes to where they are read from."""
        for (minute, day, *names), totals in self._pending.items():
            client, model, tier, task, deployment, recipe = names
            key = (client, model, tier, task)
            if minute is not None:
                self._rollups.add(minute, key, totals)
            if day is not None:
                self._book.add(day, key, (model, deployment, recipe), totals)
        self._pending.clear()

    def _log_records(self) -> Iterator[tuple[Record, float]]:
        for record in segments.iter_records(self._log_path):
            with contextlib.suppress(ValueError):
                yield record, _ended(record)


def _ended(record: Record) -> float:
    return segments.seconds(record.at) + record.duration_ms / 1000


def _utc(now: float) -> str:
    text = datetime.fromtimestamp(now, UTC).isoformat(timespec="milliseconds")
    return text.replace("+00:00", "Z")


def _replace(path: Path, data: bytes) -> None:
    new = path.with_name("usage.json.new")
    path.parent.mkdir(parents=True, exist_ok=True)
    with new.open("wb") as file:
        os.fchmod(file.fileno(), 0o600)
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    new.replace(path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)  # the rename too survives a power failure
    finally:
        os.close(folder)
