"""The scanner finds the same events however the reads are cut, in every captured stream."""

from __future__ import annotations

import pytest

from gateway.config.config import Dialect
from gateway.dialects import PATHS
from gateway.sse import Scanner
from tests.captures import Capture, every
from tests.engine_says import DONE, delta, usage, usage_event
from tests.sse import events_of

STREAMS = [c for c in every() if c.streamed and c.whole and b'"error"' not in c.body]
SHORT = [c for c in STREAMS if len(c.body) < 2500]


def dialect_of(capture: Capture) -> Dialect:
    return PATHS[capture.path.removeprefix("/v1")]


def scan(capture: Capture, *cuts: int, drop: bool = False) -> tuple[bytes, tuple[object, ...]]:
    """What goes out, and what the scanner saw, of a body cut at these offsets."""
    scanner = Scanner(dialect_of(capture), drop_usage=drop)
    ends = (*cuts, len(capture.body))
    out, start = b"", 0
    for end in ends:
        out += scanner.feed(capture.body[start:end])
        start = end
    out += scanner.end()
    return out, facts(scanner)


def facts(scanner: Scanner) -> tuple[object, ...]:
    return (scanner.content_events, scanner.finished, scanner.done, scanner.last_usage)


@pytest.mark.parametrize("capture", STREAMS, ids=lambda c: c.name)
def test_a_captured_stream_passes_untouched_and_is_complete(capture: Capture) -> None:
    out, (content, finished, done, seen) = scan(capture)

    assert out == capture.body
    assert finished
    assert done or dialect_of(capture) in ("chat", "completions")
    assert content or "silent" in capture.name or "max-tokens-0" in capture.name
    assert seen is not None or b'"usage":{' not in capture.body


@pytest.mark.parametrize("capture", STREAMS, ids=lambda c: c.name)
def test_one_byte_a_read_changes_nothing(capture: Capture) -> None:
    assert scan(capture, *range(1, len(capture.body))) == scan(capture)


@pytest.mark.parametrize("capture", SHORT, ids=lambda c: c.name)
def test_a_cut_at_any_boundary_changes_nothing(capture: Capture) -> None:
    whole = scan(capture)

    assert all(scan(capture, cut) == whole for cut in range(1, len(capture.body)))


@pytest.mark.parametrize("capture", SHORT, ids=lambda c: c.name)
def test_usage_that_nobody_asked_for_is_taken_out_alone(capture: Capture) -> None:
    expected = b"".join(
        e.raw
        for e in events_of(capture.body)
        if e.data is None or e.done or e.json.get("choices") != [] or not e.json.get("usage")
    )

    for cut in range(0, len(capture.body), 5):
        assert scan(capture, cut, drop=True)[0] == expected


@pytest.mark.parametrize("ends", [b"\n", b"\r\n", b"\r"], ids=["LF", "CRLF", "CR"])
def test_line_ends_do_not_matter_at_any_cut(ends: bytes) -> None:
    """STR-08: line ends of any kind, and no space after the colon."""
    events = [delta("é"), b": ping\n\n", delta("b", finish="stop"), usage_event(usage(9, 2)), DONE]
    body = b"".join(events).replace(b"data: ", b"data:").replace(b"\n", ends)
    capture = Capture("made", "/v1/chat/completions", b"", b"HTTP/1.1 200 OK\r\n\r\n" + body)

    whole = scan(capture)

    assert whole[0] == body
    assert whole[1][:3] == (2, True, True)
    assert all(scan(capture, cut)[0] == body for cut in range(1, len(body)))
    assert all(scan(capture, cut)[1] == whole[1] for cut in range(1, len(body)))


def test_an_event_in_several_data_lines_is_one() -> None:
    body = b'data: {"choices":[{"delta":{"content":\ndata: "x"}}]}\n\n'
    capture = Capture("made", "/v1/chat/completions", b"", b"HTTP/1.1 200 OK\r\n\r\n" + body)

    assert scan(capture)[0] == body
    assert scan(capture)[1][0] == 1


def test_a_broken_event_is_left_out_and_the_rest_passes() -> None:
    """FBK-01 (c): one bad line does not end a stream whose other events are whole."""
    body = delta("a") + b'data: {"choices": [{"del\n\n' + delta("b", finish="stop") + DONE
    capture = Capture("made", "/v1/chat/completions", b"", b"HTTP/1.1 200 OK\r\n\r\n" + body)

    assert scan(capture)[0] == delta("a") + delta("b", finish="stop") + DONE


def test_text_after_a_finish_reason_in_the_same_read_opens_the_stream_again() -> None:
    said = [delta("a"), delta("b", finish="stop"), delta("c"), delta("d")]
    scanner = Scanner("chat")

    scanner.feed(b"".join(said))

    assert scanner.content_events == 4
    assert not scanner.is_complete()


@pytest.mark.parametrize("line_end", [b"\n", b"\r", b"\r\n"])
def test_a_line_end_inside_json_ends_the_events_line_however_many_come_at_once(
    line_end: bytes,
) -> None:
    """Found by fuzzing: JSON allows it between tokens, and an event's data ends there."""
    odd = b'data: {"choices": [], "x"' + line_end + b":0}\n\n"
    alone, together = Scanner("chat"), Scanner("chat")

    assert alone.feed(odd) == b""
    assert together.feed(delta("a") + odd + delta("b")) == delta("a") + delta("b")
