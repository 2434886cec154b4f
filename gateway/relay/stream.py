"""Stream: an engine's events on their way to the client. Step 7.

Nothing broken is dressed as complete: what is raised here becomes another attempt, or an error.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from gateway.alarm import Alarm
from gateway.delivery import ClientStalled, Delivery
from gateway.dialects import DONE_EVENT
from gateway.exchange import Answer, Broken, ErrorEvent, TimedOut
from gateway.sse import Scanner


@dataclass(frozen=True, slots=True, kw_only=True)
class EventStream:
    """One engine's stream. `on_content` is called once: at the first content, or a whole end."""

    answer: Answer
    delivery: Delivery
    scanner: Scanner
    idle_s: float  # the limit to the first content stands in the alarm already
    hold_s: float
    write_s: float
    on_content: Callable[[], None]
    through: Callable[[bytes], bytes]  # what events pass on their way out; see rescue.py

    async def pass_on(self, alarm: Alarm, *, spare: bool) -> None:
        """Pass events on until the end of the answer.

        Raises ErrorEvent, Broken, TimedOut or ClientStalled; `delivery` knows what the client has
        seen. With a `spare` candidate, events before content are held.
        """
        scanner, delivery, seen, last = self.scanner, self.delivery, 0, b""
        while data := await self._read():
            out = self.through(scanner.feed(data))
            left = alarm.left()  # comments, roles and usage move no limit
            if scanner.content_events > seen:
                if seen == 0:
                    self.on_content()
                seen, left = scanner.content_events, self.idle_s
            if spare and not (seen or delivery.committed or scanner.is_complete()):
                delivery.hold(out, self.hold_s)
            elif self.answer.at_end() and scanner.is_complete():
                last = out  # in one write with the end of the body
            elif out:
                alarm.set(self.write_s, ClientStalled)
                await delivery.write(out)
            if scanner.error is not None:
                raise ErrorEvent(scanner.error)
            alarm.set(left, TimedOut)
        last += self._ending()
        if seen == 0:
            self.on_content()  # an empty answer is a whole one
        alarm.set(self.write_s, ClientStalled)
        await delivery.end(last)

    async def _read(self) -> bytes:
        try:
            return await self.answer.read()
        except Broken:
            if not self.scanner.done:
                raise
            return b""  # the terminator is in: how the connection ends no longer matters

    def _ending(self) -> bytes:
        """The last events of a whole answer; Broken if it is not one."""
        last = self.through(self.scanner.end())
        if self.scanner.error is not None:
            raise ErrorEvent(self.scanner.error)
        if not self.scanner.is_complete():
            raise Broken("the stream ended without a finish reason")
        # Some engines never send the terminator; a client may wait for it.
        return last if self.scanner.done else last + DONE_EVENT
