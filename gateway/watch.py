"""Who has left: cancels the task that serves a request when its client closes the connection."""

from __future__ import annotations

import asyncio

from gateway.body import Receive
from gateway.trace import Trace

_QUICK_S = 0.02  # many requests end sooner, and need nobody who watches their client


class Watch:
    """Watches the clients of all requests, each from `begin` to `end`.

    The server remembers who has left until it is asked, so a request is watched only once it has
    lasted for a moment: one timer looks for such requests, and a task waits with each of them.
    """

    def __init__(self) -> None:
        self._young: dict[Trace, tuple[Receive, float]] = {}
        self._watchers: dict[Trace, asyncio.Task[None]] = {}
        self._timer: asyncio.TimerHandle | None = None

    def begin(self, receive: Receive, trace: Trace) -> None:
        """The body of a request is read: from now on its client may leave."""
        loop = trace.task.get_loop()
        self._young[trace] = receive, loop.time() + _QUICK_S
        if self._timer is None:
            self._timer = loop.call_later(_QUICK_S, self._look, loop)

    def end(self, trace: Trace) -> None:
        """Nobody waits for this request any more."""
        self._young.pop(trace, None)
        watcher = self._watchers.pop(trace, None)
        if watcher is not None:
            watcher.cancel()

    def _look(self, loop: asyncio.AbstractEventLoop) -> None:
        now = loop.time()
        for trace in [t for t, (_, at) in self._young.items() if at <= now]:
            receive, _ = self._young.pop(trace)
            self._watchers[trace] = loop.create_task(_cancel_when_left(receive, trace))
        self._timer = loop.call_later(_QUICK_S, self._look, loop) if self._young else None


async def _cancel_when_left(receive: Receive, trace: Trace) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass  # the server may still say something about a body that was read whole
    trace.left = True
    trace.task.cancel()
