"""One timer for the task that waits: moved as often as one likes without touching the loop."""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Any, Self

_LOOK_S = 1.0


class Alarm:
    """Cancels its task when its time comes, and turns that into the error that was set with it.

    `task` is the task that enters it.

    `set` only writes two attributes while a timer is already under way that ends no later: the
    timer looks again when it rings. So a stream may move its limit with every read, and a timer
    never runs longer than a second: what is set next is seldom due before it.
    """

    __slots__ = ("_cancels", "_due", "_error", "_handle", "_loop", "_rang", "_rings_at", "_task")

    def __init__(self, task: asyncio.Task[Any]) -> None:
        self._task, self._loop = task, task.get_loop()
        self._handle: asyncio.TimerHandle | None = None
        self._due: float | None = None
        self._rings_at = 0.0
        self._error: type[Exception] | None = None
        self._rang = False

    def set(self, seconds: float | None, error: type[Exception]) -> None:
        """Ring in `seconds` (None: never) with `error`; replaces what was set before."""
        self._error = error
        if seconds is None:
            self._due = None
            return
        self._due = due = self._loop.time() + seconds
        if self._handle is None or due < self._rings_at:
            self._arm(due)

    def left(self) -> float | None:
        """Seconds until it rings, or None if it is off."""
        return None if self._due is None else self._due - self._loop.time()

    def _arm(self, at: float) -> None:
        if self._handle is not None:
            self._handle.cancel()
        self._rings_at = at = min(at, self._loop.time() + _LOOK_S)
        self._handle = self._loop.call_at(at, self._ring)

    def _ring(self) -> None:
        self._handle = None
        if self._due is None:
            return
        if self._due > self._loop.time():
            self._arm(self._due)
            return
        self._rang = True
        self._task.cancel()

    def __enter__(self) -> Self:
        self._cancels = self._task.cancelling()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        if self._handle is not None:
            self._handle.cancel()
        self._due = None
        # As asyncio.timeout does: our own cancellation becomes the error, a foreign one goes on.
        if not self._rang or self._task.uncancel() > self._cancels:
            return
        if kind is asyncio.CancelledError and self._error is not None:
            raise self._error() from error
