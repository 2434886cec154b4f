"""Who has left: cancels the task that serves a request when its client closes the connection."""

from __future__ import annotations

import asyncio

from gateway.body import Receive
from gateway.trace import Trace

_QUICK_S = 0.02  # many requests end sooner, and need nobody who watches their client


class Watch:
    """Watches one client, from `begin` to `end`."""

    def __init__(self, receive: Receive, trace: Trace) -> None:
        self._receive, self._task, self._trace = receive, trace.task, trace
        self._timer: asyncio.TimerHandle | None = None
        self._watcher: asyncio.Task[None] | None = None

    def begin(self) -> None:
        """The body is read. The server remembers who has left until it is asked."""
        self._timer = self._task.get_loop().call_later(_QUICK_S, self._start)

    def end(self) -> None:
        """Nobody is waited for any more."""
        if self._timer is not None:
            self._timer.cancel()
        if self._watcher is not None:
            self._watcher.cancel()

    def _start(self) -> None:
        self._watcher = self._task.get_loop().create_task(self._look())

    async def _look(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass  # the server may still say something about a body that was read whole
        self._trace.left = True
        self._task.cancel()
