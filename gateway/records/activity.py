"""The activity log: records are handed over in the request's path and written behind it.

`write` only appends to a queue. One thread takes what is there every tenth of a second and
appends it to the file, so that a kill loses at most the records of the last moment. What cannot
be written is kept and tried again while the queue has room; what finds no room is counted.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path

import msgspec
import structlog

from gateway.config.config import Activity
from gateway.records.lock import RecordsError
from gateway.records.logfile import LogFile
from gateway.records.record import Record
from gateway.records.segments import iter_records

__all__ = ["ActivityLog", "RecordsError", "iter_records"]

FLUSH_S = 0.1
RETRY_S = 1.0
COMPLAIN_S = 60.0
EXPIRE_S = 3600.0  # age holds to within an hour
BATCH = 1000

log = structlog.get_logger("activity")


class ActivityLog:
    """Writes one line a record to `activity.path`; never blocks and never fails the caller.

    `start` raises RecordsError where the file cannot be had. `lost` counts records that are
    not in the file and never will be.
    """

    def __init__(
        self,
        activity: Activity,
        *,
        clock: Callable[[], float] = time.time,
        max_waiting: int = 16_384,
        flush_s: float = FLUSH_S,
    ) -> None:
        self._file = LogFile(activity)
        self._clock = clock
        self._max_waiting = max_waiting
        self._flush_s = flush_s
        self._queue: deque[Record] = deque()
        self._unwritten: list[bytes] = []  # encoded, refused by the disk, tried again
        self._encode = msgspec.json.Encoder().encode
        self._given = 0  # counted where records are given; the next two by the writer alone
        self._written = 0
        self._dropped = 0
        self._turned_away = 0
        self._open = False
        self._stopping = False
        self._wake = threading.Event()
        self._tick = threading.Condition()
        self._thread: threading.Thread | None = None
        self._failing = False
        self._complained_at = float("-inf")
        self._expired_at = 0.0

    @property
    def lost(self) -> int:
        """Records that were given and are not in the file: no room, refused, or given late."""
        return self._turned_away + self._dropped

    @property
    def written(self) -> int:
        """Records that are in the file."""
        return self._written

    @property
    def path(self) -> Path:
        """The file as it is on disk, links resolved."""
        return self._file.path

    def start(self) -> None:
        """Open the file and start the writer; RecordsError says why it cannot be."""
        self._expired_at = self._clock()
        self._file.open(self._expired_at)
        self._open = True
        self._thread = threading.Thread(target=self._run, name="activity-log", daemon=True)
        self._thread.start()

    def write(self, record: Record) -> None:
        """Hand over a record. Never blocks, never raises; without room it is counted lost."""
        if len(self._queue) >= self._max_waiting or not self._open:
            self._turned_away += 1
            return
        self._given += 1
        self._queue.append(record)

    def flush(self, timeout_s: float = 2.0) -> bool:
        """Wait until every record given so far is in the file or lost; False: not in time."""
        target = self._given
        self._wake.set()
        with self._tick:
            return self._tick.wait_for(lambda: self._settled >= target, timeout_s)

    def close(self, timeout_s: float = 5.0) -> None:
        """Write what waits, at most this long, and let go of the file. The rest is lost."""
        if self._thread is None:
            return
        self._open = False
        self._stopping = True
        self._wake.set()
        self._thread.join(timeout_s)
        if self._thread.is_alive():
            # The disk hangs: the thread is a daemon and ends with us.
            self._turned_away += self._given - self._settled
        self._thread = None
        if self.lost:
            log.warning("activity_records_lost", lost=self.lost)

    async def aclose(self, timeout_s: float = 5.0) -> None:
        """`close` for the event loop: the loop goes on while the disk works."""
        await asyncio.to_thread(self.close, timeout_s)

    @property
    def _settled(self) -> int:
        return self._written + self._dropped

    def _run(self) -> None:
        while not self._stopping:
            self._wake.wait(RETRY_S if self._failing else self._flush_s)
            self._wake.clear()
            self._drain()
            self._expire()
        self._drain()
        self._dropped += len(self._unwritten) + len(self._queue)
        with self._tick:
            self._tick.notify_all()
        self._file.close()

    def _drain(self) -> None:
        while self._unwritten or self._queue:
            if not self._unwritten:
                self._take_batch()
            try:
                done = self._file.append(self._unwritten)
            except (OSError, RecordsError) as error:
                self._complain(error)
                break
            self._failing = False
            self._written += done
            del self._unwritten[:done]
        with self._tick:
            self._tick.notify_all()

    def _take_batch(self) -> None:
        for _ in range(min(BATCH, len(self._queue))):
            record = self._queue.popleft()
            try:
                line = self._encode(record) + b"\n"
            except (msgspec.MsgspecError, UnicodeError, TypeError) as error:
                self._dropped += 1
                # No traceback: it could quote the client's text.
                log.warning("activity_record_unwritable", id=record.id, why=type(error).__name__)
                continue
            if len(line) > self._file.max_bytes:
                self._dropped += 1
                continue
            self._unwritten.append(line)

    def _expire(self) -> None:
        now = self._clock()
        if now - self._expired_at >= EXPIRE_S:
            self._expired_at = now
            # A disk that refuses is reported by the writing, which is tried again.
            with contextlib.suppress(OSError, RecordsError):
                self._file.expire(now)

    def _complain(self, error: OSError | RecordsError) -> None:
        self._failing = True
        if time.monotonic() - self._complained_at >= COMPLAIN_S:
            self._complained_at = time.monotonic()
            log.error(
                "activity_log_unwritable",
                path=str(self._file.path),
                error=str(error),
                waiting=len(self._queue) + len(self._unwritten),
                lost=self.lost,
            )
