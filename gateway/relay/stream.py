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


async def stream(
    answer: Answer,
    delivery: Delivery,
    scanner: Scanner,
    alarm: Alarm,
    limits: Limits,
    on_content: Callable[[], None],
    *,
    spare: bool,
) -> None:
    """Pass an engine's events on until the end of its answer.

    Raises ErrorEvent, Broken, TimedOut or ClientStalled; whether the client has seen anything is
    for `delivery` to say. With a `spare` candidate, events before the first content are held.
    """
    idle, stalled = TimedOut("no content for the idle limit"), ClientStalled()
    seen = 0
    while data := await answer.read():
        try:
            out = scanner.feed(data)
        except TooLong:
            raise Broken("an event without an end") from None
        if scanner.content_events > seen:
            if seen == 0:
                on_content()
            seen = scanner.content_events
            left: float | None = limits.idle_s
        else:
            left = alarm.left()  # comments, roles and usage move no limit
        if not seen and spare and not delivery.committed and not scanner.is_complete():
            delivery.hold(out, limits.hold_s)
        elif out:
            alarm.set(limits.write_s, stalled)
            await delivery.write(out)
        if scanner.error is not None:
            raise ErrorEvent(scanner.error)
        alarm.set(left, idle)
    last = scanner.end()
    if scanner.error is not None:
        raise ErrorEvent(scanner.error)
    if not scanner.is_complete():
        raise Broken("the stream ended without a finish reason")
    if not seen:
        on_content()  # an empty answer is a whole one
    if not scanner.done:
        last += DONE_EVENT  # some engines never send it; a client may wait for it
    alarm.set(limits.write_s, stalled)
    await delivery.end(last)
