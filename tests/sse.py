"""A strict reader of server-sent events: what a careful client library would refuse, it refuses."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

# Two line ends in a row; atomic, or CR LF would count as two. A CR at the end may have its LF yet.
BLANK = re.compile(rb"(?>\r\n|\n|\r)(?>\r\n|\n|\r(?!\Z))")


@dataclass(frozen=True, slots=True)
class Event:
    """One event. `raw` is its bytes with the blank line, `at` when its last byte came."""

    raw: bytes
    name: str | None
    data: str | None  # None: only comments
    at: float

    @property
    def done(self) -> bool:
        """Whether it is the terminator of OpenAI's streams."""
        return self.data == "[DONE]"

    @property
    def json(self) -> Any:
        """The data, decoded; an error if it is no JSON."""
        assert self.data is not None, f"no data in {self.raw!r}"
        return json.loads(self.data)


class StrictParser:
    """Feeds on bytes, returns whole events; asserts that every data line is JSON or [DONE].

    An event is over at a blank line, whatever the line ends are.
    """

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes, at: float) -> list[Event]:
        """The events that these bytes complete."""
        self._rest += data
        events = []
        while (end := self._end()) is not None:
            raw, self._rest = self._rest[:end], self._rest[end:]
            events.append(parse(raw, at))
        return events

    def finish(self) -> None:
        """The stream is over: an event without its blank line is an error."""
        assert self._rest in (b"", b"\r"), f"an event without its end: {self._rest!r}"

    def _end(self) -> int | None:
        """Where the first event ends: after the first blank line."""
        found = BLANK.search(self._rest)
        return None if found is None else found.end()


def parse(raw: bytes, at: float) -> Event:
    """One event's bytes, read strictly."""
    name, data = None, []
    for line in raw.decode("utf-8").replace("\r\n", "\n").replace("\r", "\n").split("\n"):
        if not line or line.startswith(":"):
            continue
        field, _, value = line.partition(":")
        value = value.removeprefix(" ")
        assert field in ("data", "event", "id", "retry"), f"not a field of SSE: {line!r}"
        if field == "event":
            name = value
        elif field == "data":
            data.append(value)
    text = "\n".join(data) if data else None
    if text is not None and text != "[DONE]":
        json.loads(text)
    return Event(raw, name, text, at)


def events_of(body: bytes) -> list[Event]:
    """All events of a finished stream."""
    parser = StrictParser()
    events = parser.feed(body, 0.0)
    parser.finish()
    return events


def text_of(events: list[Event]) -> str:
    """The text that a client of any dialect would have put together."""
    out = ""
    for one in events:
        if one.data is None or one.done:
            continue
        data = one.json
        for choice in data.get("choices") or []:
            out += (choice.get("delta") or {}).get("content") or choice.get("text") or ""
        if data.get("type") == "content_block_delta":
            out += data["delta"].get("text", "")
        if data.get("type") == "response.output_text.delta":
            out += data["delta"]
    return out


def error_of(events: list[Event]) -> dict[str, Any] | None:
    """The error object of the first error event of any dialect, or None."""
    for one in events:
        if one.data is None or one.done:
            continue
        data = one.json
        if isinstance(data.get("error"), dict):
            return dict(data["error"])
        if data.get("type") == "error":
            return dict(data)
        if data.get("type") == "response.failed":
            return dict(data["response"]["error"])
    return None


def ended_well(events: list[Event]) -> bool:
    """Whether a client would take the stream for a complete answer."""
    for one in events:
        if one.data is None:
            continue
        if one.done or one.json.get("type") in ("message_stop", "response.completed"):
            return True
    return False
