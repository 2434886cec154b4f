"""Alarms: limits for tasks that wait, moved as often as one likes without touching the loop.

One timer serves all of them. It rings when the first is due, and once a second at the latest; so a
request with a long limit, as most have, never sets a timer of its own.
"""

from __future__ import annotations

import asyncio
import math
from types import TracebackType
from typing import Any, Self

_LOOK_S = 1.0


class Alarms:
    """All alarms of one loop, and the timer that they share."""

    __slots__ = ("_loop", "_on", "_timer", "rings_at")

    def __init__(self) -> None:
        self._on: set[Alarm] = set()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._timer: asyncio.TimerHandle | None = None
        self.rings_at = math.inf

    def of(self, task: asyncio.Task[Any]) -> Alarm:
        """An alarm for the task that enters it."""
        if self._loop is None:
            self._loop = task.get_loop()
        return Alarm(self, task, self._loop)

    def add(self, alarm: Alarm) -> None:
        """It may ring from now on."""
        self._on.add(alarm)

    def discard(self, alarm: Alarm) -> None:
        """It rings no more."""
        self._on.discard(alarm)

    def ring_by(self, at: float, loop: asyncio.AbstractEventLoop) -> None:
        """Look at all alarms at that time, or before it."""
        if self._timer is not None:
            self._timer.cancel()
        self.rings_at = at = min(at, loop.time() + _LOOK_S)
        self._timer = loop.call_at(at, self._look, loop)

    def _look(self, loop: asyncio.AbstractEventLoop) -> None:
        self._timer, self.rings_at = None, math.inf
        now, first = loop.time(), math.inf
        for alarm in self._on:
            if alarm.due <= now:
                alarm.ring()
            elif alarm.due < first:
                first = alarm.due
        if first < math.inf:
            self.ring_by(first, loop)


class Alarm:
    """Cancels its task when its time comes, and turns that into the error that was set with it.

    `set` only writes two attributes while the timer is already under way and rings no later. So a
    stream may move its limit with every read.
    """

    __slots__ = ("_alarms", "_cancels", "_error", "_loop", "_rang", "_task", "due")

    def __init__(
        self, alarms: Alarms, task: asyncio.Task[Any], loop: asyncio.AbstractEventLoop
    ) -> None:
        self._alarms, self._task, self._loop = alarms, task, loop
        self._error: type[Exception] | None = None
        self._rang = False
        self.due = math.inf  # loop time

    def set(self, seconds: float | None, error: type[Exception]) -> None:
        """Ring in `seconds` (None: never) with `error`; replaces what was set before."""
        self._error = error
        if seconds is None:
            self.due = math.inf
            return
        self.due = due = self._loop.time() + seconds
        if due < self._alarms.rings_at:
            self._alarms.ring_by(due, self._loop)

    def left(self) -> float | None:
        """Seconds until it rings, or None if it is off."""
        return None if self.due == math.inf else self.due - self._loop.time()

    def ring(self) -> None:
        """Its time has come."""
        self.due = math.inf
        self._rang = True
        self._task.cancel()

    def __enter__(self) -> Self:
        self._cancels = self._task.cancelling()
        self._alarms.add(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        self._alarms.discard(self)
        # As asyncio.timeout does: our own cancellation becomes the error, a foreign one goes on.
        if not self._rang or self._task.uncancel() > self._cancels:
            return
        if kind is asyncio.CancelledError and self._error is not None:
            raise self._error() from error
