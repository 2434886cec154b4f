"""The scanner: finds whole events in a stream of bytes, and reads what they say.

Bytes go out as they came: nothing is re-serialised. An event ends at a blank line, whatever the
line ends (LF, CRLF or CR) and wherever the reads are cut. Left out are: an event whose data is no
JSON, the usage event that the gateway asked for and the client did not, an error event (the caller
decides what becomes of it) and all that follows one.
"""

from __future__ import annotations

import re

from gateway.config.config import Dialect
from gateway.dialects import ASKS_FOR_USAGE, DONE_EVENT
from gateway.events import CONTENT, EventFacts, read_event, read_events
from gateway.records.record import Usage

_DONE = b"[DONE]"
# A blank line: two line ends in a row. The groups are atomic, or CR LF would count as two.
_BLANK = re.compile(rb"(?>\r\n|\n|\r)(?>\r\n|\n|\r)")
_LINE = re.compile(rb"\r\n|\n|\r")
MAX_EVENT_BYTES = 16 * 1024 * 1024
# What stands for an event that goes on beyond that: as good as an error event.
_ENDLESS = b'{"error":{"message":"the engine sent an event without an end","code":502}}'


class Scanner:
    """Reads one stream. `feed` returns the bytes of the whole events to pass on."""

    __slots__ = (
        "_dialect",
        "_drop_usage",
        "_pieces",
        "_rest",
        "_speaking",
        "_waiting",
        "content_events",
        "done",
        "error",
        "finished",
        "last_usage",
        "usage_is_final",
    )

    def __init__(self, dialect: Dialect, *, drop_usage: bool = False) -> None:
        self._dialect = dialect
        self._drop_usage = drop_usage
        self._rest = b""  # an event's beginning, and
        self._pieces: list[bytes] = []  # what came of it since; together
        self._waiting = 0  # so many bytes
        self._speaking: set[int] = set()  # choices that have not finished
        self.content_events = 0
        self.finished = False  # every choice that spoke has its finish reason
        self.done = False  # the terminator was seen
        self.error: bytes | None = None  # the data of an error event: nothing follows it
        self.last_usage: Usage | None = None
        self.usage_is_final = False  # it came with or after the finish reason

    def feed(self, data: bytes) -> bytes:
        """Whole events in `data` and what was left of earlier reads, in their own bytes."""
        if self._rest:
            self._pieces.append(data)
            self._waiting += len(data)
            if b"\n" not in data and b"\r" not in data:  # a long event is joined once, at its end
                if self._waiting > MAX_EVENT_BYTES:
                    self.error = _ENDLESS
                return b""
            data = b"".join((self._rest, *self._pieces))
            self._pieces.clear()
        last = data.rfind(b"\n\n") + 2
        if data.find(b"\n\n", 0, last - 1) >= 0 and self._read_many(data[:last]):
            self._rest = data[last:]
            self._waiting = len(self._rest)
            return data[:last]
        out: list[bytes] = []
        start = kept_from = 0
        plain = b"\r" not in data
        while self.error is None:
            # Nearly every event is one line and a blank one: a search for a single byte is enough.
            line_end = data.find(b"\n", start) if plain else -1
            one_line = line_end >= 0 and data.startswith(b"\n", line_end + 1)
            end = line_end + 2 if one_line else _end_of_event(data, start)
            if end < 0:
                break
            if not self._read(data[start:end], one_line=one_line):
                out.append(data[kept_from:start])
                kept_from = end
            start = end
        self._rest = data[start:] if self.error is None else b""
        self._waiting = len(self._rest)
        if self._waiting > MAX_EVENT_BYTES:
            self.error = _ENDLESS
        out.append(data[kept_from:start])
        return b"".join(out) if len(out) > 1 else out[0]

    def end(self) -> bytes:
        """At the end of the body: the last event, completed if its blank line is missing."""
        rest, self._rest = b"".join((self._rest, *self._pieces)), b""
        if self.error is not None:
            return b""
        if not rest.strip():
            return rest  # the last half of a line end, perhaps
        newline = b"\r\n" if b"\r\n" in rest else b"\n"
        event = rest.rstrip(b"\r\n") + newline * 2
        return event if self._read(event) else b""

    def is_complete(self) -> bool:
        """True if the answer ended as its dialect says a whole one ends."""
        if self.error is not None:
            return False
        if self._dialect in ASKS_FOR_USAGE:
            return self.done or self.finished
        return self.done

    def _read_many(self, events: bytes) -> bool:
        """Note what a read full of events says; False if they must be looked at one by one."""
        if self._dialect not in ASKS_FOR_USAGE or self.error is not None:
            return False
        done = events.endswith(DONE_EVENT)
        many = read_events(events[: -len(DONE_EVENT)] if done else events)
        if many is None:
            return False
        others = [f for f in many if f is not CONTENT]
        if any(f.error or (f.only_usage and self._drop_usage) for f in others):
            return False
        ended = next((i for i, f in enumerate(many) if f.finished), len(many))
        if len(others) < len(many) and CONTENT not in many[ended:]:
            # Nothing is said after an end: what was said before it counts at once.
            self._note(CONTENT)
            self.content_events += len(many) - len(others) - 1
            many = others
        for facts in many:
            self._note(facts)
        self.done = self.done or done
        return True

    def _read(self, event: bytes, *, one_line: bool = False) -> bool:
        """Note what an event says; False if it is to be left out."""
        # JSON may have blanks around it: the common event is not cut to size first.
        data = event[5:] if one_line and event.startswith(b"data:") else _data_of(event)
        if data is None:
            return True  # a comment, or fields without data: no content, nothing to judge
        facts = read_event(self._dialect, data)
        if facts is None:
            self.done = self.done or data.strip() == _DONE
            return data.strip() == _DONE
        if facts.error:
            self.error = data.strip()
            return False
        self._note(facts)
        return not (facts.only_usage and self._drop_usage)

    def _note(self, facts: EventFacts) -> None:
        if facts.content:
            self.content_events += 1
            self._speaking.update(facts.speaking)
            self.finished = False
            if facts is CONTENT:
                return
        if facts.finished:
            self._speaking.difference_update(facts.finished)
            self.finished = not self._speaking
        if facts.ends:
            self.done = True
        if facts.usage is not None:
            self.last_usage = _larger(self.last_usage, facts.usage)
            self.usage_is_final = self.finished


def _end_of_event(data: bytes, start: int) -> int:
    """Where the event at `start` ends, after its blank line; -1 if that has not arrived."""
    found = _BLANK.search(data, start)
    return -1 if found is None else found.end()


def _data_of(event: bytes) -> bytes | None:
    """The data of an event, its lines joined; None if it has no data field."""
    lines = [
        line[5:].removeprefix(b" ")
        for line in _LINE.split(event)
        if line.startswith(b"data:") or line == b"data"
    ]
    return b"\n".join(lines).strip() if lines else None


def _larger(before: Usage | None, now: Usage) -> Usage:
    """Usage counts are running totals: the later wins, and what it leaves out stays."""
    if before is None:
        return now
    return Usage(
        prompt_tokens=_most(before.prompt_tokens, now.prompt_tokens),
        cached_tokens=_most(before.cached_tokens, now.cached_tokens),
        completion_tokens=_most(before.completion_tokens, now.completion_tokens),
        reasoning_tokens=_most(before.reasoning_tokens, now.reasoning_tokens),
    )


def _most(a: int | None, b: int | None) -> int | None:
    return b if a is None else a if b is None else max(a, b)
