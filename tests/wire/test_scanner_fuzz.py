"""The scanner against a slow and plain reading of the same bytes, for any events and any cuts."""

from __future__ import annotations

import json

from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.sse import Scanner
from tests.sse import Event, StrictParser

TEXTS = st.text(st.characters(codec="utf-8", exclude_categories=["Cs"]), max_size=12)
SOUND = st.builds(
    lambda text: json.dumps({"choices": [{"delta": {"content": text}}]}, ensure_ascii=False),
    TEXTS,
)
BROKEN = st.sampled_from(["{", "keep-alive", '{"choices": [}', "[DONE", "nul"])
COMMENT = st.sampled_from([":", ": ping", "event: x", "id: 7"])
NEWLINES = st.sampled_from(["\n", "\r\n", "\r"])


@st.composite
def event(draw: st.DrawFn, newline: str) -> tuple[bytes, bool, bool]:
    """An event's bytes, whether it passes, and whether it holds content."""
    lines = draw(st.lists(COMMENT, max_size=2))
    kind = draw(st.sampled_from(["sound", "broken", "none"] if lines else ["sound", "broken"]))
    data = draw({"sound": SOUND, "broken": BROKEN, "none": st.just("")}[kind])
    if kind != "none":
        colon = draw(st.sampled_from(["data:", "data: "]))
        lines.insert(draw(st.integers(0, len(lines))), colon + data)
    raw = "".join(line + newline for line in lines) + newline
    content = kind == "sound" and json.loads(data)["choices"][0]["delta"]["content"] != ""
    return raw.encode(), kind != "broken", content


@st.composite
def streams(draw: st.DrawFn) -> tuple[list[tuple[bytes, bool, bool]], list[int]]:
    """Events with one kind of line end, and where the reads are cut."""
    newline = draw(NEWLINES)
    events = draw(st.lists(event(newline), max_size=8))
    length = sum(len(raw) for raw, _, _ in events)
    return events, sorted(draw(st.sets(st.integers(0, length), max_size=12)))


@settings(max_examples=300, deadline=None)
@given(streams())
def test_what_passes_is_every_sound_event_in_its_own_bytes(
    case: tuple[list[tuple[bytes, bool, bool]], list[int]],
) -> None:
    events, cuts = case
    body = b"".join(raw for raw, _, _ in events)
    scanner = Scanner("chat")

    out, start = b"", 0
    for cut in [*cuts, len(body)]:
        out += scanner.feed(body[start:cut])
        start = cut
    out += scanner.end()

    expected = b"".join(raw for raw, passes, _ in events if passes)
    if all(passes for _, passes, _ in events):
        assert out == expected
    # Of a dropped event whose CR LF was cut apart the LF may pass: an empty line says nothing.
    assert said(out) == said(expected)
    assert scanner.content_events == sum(content for _, _, content in events)


def said(body: bytes) -> list[str]:
    """The data of all events."""
    events: list[Event] = StrictParser().feed(body + b"\n", 0.0)
    return [e.data for e in events if e.data is not None]
