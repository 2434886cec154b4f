"""Stream: an engine's events on their way to the client. Step 7.

Before the commit point (see delivery.py) a failure moves on to the next candidate and the client
sees nothing of it. After it, nothing broken is dressed as complete.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from gateway.alarm import Alarm
from gateway.delivery import ClientStalled, Delivery
from gateway.dialects import DONE_EVENT
from gateway.exchange import Answer, Broken, TimedOut
from gateway.sse import Scanner, TooLong


class ErrorEvent(Exception):
    """An error event inside a 200 stream; nothing that follows it counts."""

    def __init__(self, data: bytes) -> None:
        super().__init__("error event")
        self.data = data


@dataclass(frozen=True, slots=True)
class Limits:
    """Seconds. The limit to the first content stands in the alarm already."""

    idle_s: float
    hold_s: float
    write_s: float


class EventStream:
    """One engine's stream. `on_content` is called once: at the first content, or a whole end."""

    def __init__(
        self,
        answer: Answer,
        delivery: Delivery,
        scanner: Scanner,
        limits: Limits,
        on_content: Callable[[], None],
    ) -> None:
        self._answer, self._delivery, self._scanner = answer, delivery, scanner
        self._limits, self._on_content = limits, on_content
        self._idle, self._stalled = TimedOut(), ClientStalled()

    async def pass_on(self, alarm: Alarm, *, spare: bool) -> None:
        """Pass events on until the end of the answer.

        Raises ErrorEvent, Broken, TimedOut or ClientStalled; whether the client has seen anything
        is for `delivery` to say. With a `spare` candidate, events before content are held.
        """
        scanner, delivery, limits, seen = self._scanner, self._delivery, self._limits, 0
        while data := await self._answer.read():
            out = self._whole_events(data)
            left = alarm.left()  # comments, roles and usage move no limit
            if scanner.content_events > seen:
                if seen == 0:
                    self._on_content()
                seen, left = scanner.content_events, limits.idle_s
            if spare and not (seen or delivery.committed or scanner.is_complete()):
                delivery.hold(out, limits.hold_s)
            elif out:
                alarm.set(limits.write_s, self._stalled)
                await delivery.write(out)
            if scanner.error is not None:
                raise ErrorEvent(scanner.error)
            alarm.set(left, self._idle)
        last = self._ending()
        if seen == 0:
            self._on_content()  # an empty answer is a whole one
        alarm.set(limits.write_s, self._stalled)
        await delivery.end(last)

    def _whole_events(self, data: bytes) -> bytes:
        try:
            return self._scanner.feed(data)
        except TooLong:
            raise Broken("an event without an end") from None

    def _ending(self) -> bytes:
        """The last events of a whole answer; Broken if it is not one."""
        last = self._scanner.end()
        if self._scanner.error is not None:
            raise ErrorEvent(self._scanner.error)
        if not self._scanner.is_complete():
            raise Broken("the stream ended without a finish reason")
        # Some engines never send the terminator; a client may wait for it.
        return last if self._scanner.done else last + DONE_EVENT
