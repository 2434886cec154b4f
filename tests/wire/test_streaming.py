"""Streams: whole events in their own bytes, the moment they are in; nothing broken looks whole."""

from __future__ import annotations

import asyncio
import json
import time

import pytest

from tests.client import PATHS, question
from tests.engine import FakeEngine
from tests.engine_answers import (
    Answer,
    Close,
    Hold,
    Pause,
    Reset,
    Send,
    Silence,
    Step,
    bytewise,
    chunk,
    head,
    raw,
    spaced,
    stream,
)
from tests.engine_says import DONE, Say, chat_events, delta, event, usage, usage_event
from tests.engine_wire import Received
from tests.harness import gateway
from tests.node import Node, member

WORDS = [f"word{n} " for n in range(60)]
ROUTES = pytest.mark.parametrize("dialect", ["chat", "completions", "messages", "responses"])
CHAT_ROUTES = pytest.mark.parametrize("dialect", ["chat", "messages"])


def one(*answers: Answer, **info: object) -> tuple[Node, FakeEngine]:
    engine = FakeEngine("e", script=answers)
    return Node({"chat": member(engine, info or None)}, router={"num_retries": 0}), engine


def broken_off(words: int, how: Step) -> object:
    """A well begun stream of any dialect that breaks after so many words."""

    def answer(received: Received) -> Answer:
        whole = Say(words=tuple(WORDS))(received)
        marks = (b'"content": "word', b'"text": "word', b'"delta": "word')
        at = [
            n
            for n, s in enumerate(whole)
            if isinstance(s, Send) and any(m in s.data for m in marks)
        ]
        return (*whole[: at[words - 1] + 1], how)

    return answer


BREAKS: dict[str, Step] = {
    "closed": Close(),
    "reset": Reset(),
    "ended cleanly": Send(b"0\r\n\r\n"),
    "frozen": Silence(),
}


@ROUTES
@pytest.mark.parametrize("how", BREAKS)
async def test_a_break_after_content_is_an_error_event_and_no_success(
    dialect: str, how: str
) -> None:
    """FBK-01, STR-01, F8, F9, ACC-10: no second voice, no terminator; the record says failed."""
    a = FakeEngine("a", otherwise=broken_off(40, BREAKS[how]))  # type: ignore[arg-type]
    b = FakeEngine("b")
    node = Node(
        {"chat": member(a, {"stream_idle_timeout_s": 0.3}), "spare": b},
        router={"fallbacks": [{"chat": ["spare"]}], "num_retries": 2},
    )

    async with gateway(node) as g:
        began = time.perf_counter()
        got = await g.client.ask("chat", dialect=dialect, stream=True)
        took = time.perf_counter() - began
        record = await g.record()

    assert got.status == 200
    assert got.text == "".join(WORDS[:40])
    assert got.error is not None
    assert not got.done
    assert got.events[-1].data is not None
    assert b.requests == []
    assert took < 1.5
    assert (record["outcome"], record["status"]) == ("failed", 200)
    assert record["error"]
    assert 38 <= record["completion_tokens"] <= 42
    assert record["estimated"] is True


async def test_an_error_event_has_the_shape_of_its_dialect() -> None:
    """Promise 5: the client gets an error event in its own dialect."""
    shapes = {}
    for dialect in ("chat", "completions", "messages", "responses"):
        a = FakeEngine("a", otherwise=broken_off(3, Reset()))  # type: ignore[arg-type]
        async with gateway(Node({"chat": a})) as g:
            got = await g.client.ask("chat", dialect=dialect, stream=True)
        shapes[dialect] = got.events[-1]

    for dialect in ("chat", "completions"):
        assert set(shapes[dialect].json["error"]) >= {"message", "type", "code"}
    assert shapes["messages"].name == "error"
    assert shapes["messages"].json["type"] == "error"
    assert set(shapes["messages"].json["error"]) >= {"type", "message"}
    assert shapes["responses"].json["type"] in ("error", "response.failed")
    assert shapes["responses"].name == shapes["responses"].json["type"]


@pytest.mark.parametrize("dialect", ["chat", "completions"])
async def test_finish_reason_and_a_clean_end_are_completion(dialect: str) -> None:
    """F11: the terminator is missing: the stream is whole, and the client gets the mark."""

    def answer(received: Received) -> Answer:
        whole = Say(words=tuple(WORDS), usage="always")(received)
        return tuple(s for s in whole if not (isinstance(s, Send) and DONE in s.data))

    engine = FakeEngine("e", otherwise=answer)

    async with gateway(Node({"chat": engine})) as g:
        got = await g.client.ask(
            "chat", dialect=dialect, stream=True, stream_options={"include_usage": True}
        )
        record = await g.record()

    assert got.text == "".join(WORDS)
    assert got.done
    assert got.error is None
    assert record["outcome"] == "ok"
    assert record["completion_tokens"] == 3


@CHAT_ROUTES
async def test_an_error_event_then_the_end_mark_is_a_failure(dialect: str) -> None:
    """STR-03, engine killed in mid-stream: the error reaches the client, the mark does not."""
    inner = {"message": "EngineCore died", "type": "InternalServerError", "code": 500}
    bad = (
        event({"error": inner})
        if dialect == "chat"
        else event({"type": "error", "error": inner}, "error")
    )

    def answer(received: Received) -> Answer:
        whole = Say(words=tuple(WORDS[:10]))(received)
        return (*whole[:8], Send(chunk(bad)), Send(chunk(DONE)), Send(b"0\r\n\r\n"))

    engine = FakeEngine("e", otherwise=answer)

    async with gateway(Node({"chat": engine})) as g:
        got = await g.client.ask("chat", dialect=dialect, stream=True)
        record = await g.record()

    assert got.error is not None
    assert "EngineCore died" in json.dumps(got.error)
    assert not got.done
    assert record["outcome"] == "failed"


async def test_an_unreadable_event_is_dropped_and_the_rest_passes() -> None:
    """F10, FBK-01 (c): every event that the client receives parses."""
    events = chat_events(WORDS[:20])
    answer = stream([*events[:9], b'data: {"choices":[{"delta":{"con\n\n', *events[9:], DONE])
    node, _ = one(answer)

    async with gateway(node) as g:
        got = await g.client.ask("chat", stream=True)
        record = await g.record()

    assert got.body == b"".join([*events, DONE])
    assert record["outcome"] == "ok"


async def test_comments_stay_comments_and_events_keep_their_bytes() -> None:
    """STR-05: keep-alives before and between the tokens; no data line that is not JSON."""
    events = chat_events(["a", "b"])
    parts = [b": hi\n\n", events[0], b":\n\n", events[1], b": x\n\n", *events[2:], DONE]
    node, _ = one(stream(parts))

    async with gateway(node) as g:
        got = await g.client.ask("chat", stream=True)

    assert b"".join(e.raw for e in got.events if e.data) == b"".join([*events, DONE])
    assert got.text == "ab"


@pytest.mark.parametrize("ends", [b"\n", b"\r\n"], ids=["LF", "CRLF"])
@pytest.mark.parametrize("single", [False, True], ids=["events", "bytes"])
async def test_line_ends_and_spaces_do_not_matter(ends: bytes, single: bool) -> None:
    """STR-08, STR-10: CRLF, no space after the colon, 3 and 4-byte characters, any write."""
    events = [*chat_events(["né", "日本", "🚆"]), usage_event(usage(9, 4)), DONE]
    events = [e.replace(b"data: ", b"data:").replace(b"\n", ends) for e in events]
    answer = stream(events)
    node, _ = one(bytewise(answer) if single else answer)

    async with gateway(node) as g:
        got = await g.client.ask("chat", stream=True, stream_options={"include_usage": True})
        record = await g.record()

    assert got.body == b"".join(events)
    assert got.text == "né日本🚆"
    assert (record["prompt_tokens"], record["completion_tokens"]) == (9, 4)


async def test_empty_choices_and_no_choices_pass() -> None:
    """STR-11: filter results first, no choices key in between, usage recorded once."""
    odd = [
        event({"id": "x", "choices": [], "prompt_filter_results": [{"index": 0}]}),
        event({"id": "x", "object": "chat.completion.chunk"}),
    ]
    events = chat_events(["a"])
    parts = [odd[0], events[0], odd[1], *events[1:], usage_event(usage(5, 1)), DONE]
    node, _ = one(stream(parts))

    async with gateway(node) as g:
        got = await g.client.ask("chat", stream=True, stream_options={"include_usage": True})
        record = await g.record()

    assert got.body == b"".join(parts)
    assert (record["prompt_tokens"], record["completion_tokens"]) == (5, 1)


def call(index: int | None, name: str | None, arguments: str | None, **more: str) -> bytes:
    function = {"name": name, "arguments": arguments}
    item: dict[str, object] = {"function": {k: v for k, v in function.items() if v is not None}}
    if index is not None:
        item["index"] = index
    return delta(None, tool_calls=[{**item, **more}])


TOOLS: dict[str, list[bytes]] = {
    "STR-12: the call, then the end": [
        call(0, "f", '{"a": 1}', id="A", type="function"),
        delta(finish="stop"),
    ],
    "STR-13: the finish reason without a call": [delta("text"), delta(finish="tool_calls")],
    "STR-14: two calls with one index": [
        call(0, "f", "{}", id="A"),
        call(0, "g", "{}", id="B"),
        delta(finish="tool_calls"),
    ],
    "STR-15: no index, and a mix": [
        call(None, "f", None, id="A"),
        call(None, None, "{}"),
        call(None, "g", "{}", id="B"),
        call(2, "h", "{}", id="C"),
        delta(finish="tool_calls"),
    ],
    "STR-17: reasoning, both names": [
        delta(reasoning="hm"),
        delta(reasoning_content="hm"),
        delta(reasoning="x", reasoning_content="x"),
        delta("a"),
        delta(finish="stop"),
    ],
    "STR-25: stop in an empty chunk": [delta("a"), delta(finish="stop")],
    "STR-25: stop with the last text": [delta("a", finish="stop")],
    "STR-25: length": [delta("a"), delta(finish="length")],
    "STR-26: stop on a reasoning chunk first": [
        delta(reasoning="hm", finish="stop"),
        delta("a"),
        delta(finish="stop"),
    ],
}


@pytest.mark.parametrize("case", TOOLS)
async def test_odd_deltas_pass_byte_for_byte(case: str) -> None:
    """Pass-through is exact: nothing is repaired, merged, dropped or ended early."""
    parts = [delta("", role="assistant"), *TOOLS[case], usage_event(usage(5, 2)), DONE]
    node, _ = one(stream(parts))

    async with gateway(node) as g:
        got = await g.client.ask("chat", stream=True, stream_options={"include_usage": True})
        record = await g.record()

    assert got.body == b"".join(parts)
    assert (record["outcome"], record["completion_tokens"]) == ("ok", 2)
    assert record["ttft_ms"] is not None


async def test_each_event_goes_out_the_moment_it_is_in() -> None:
    """STR-19: the client has each event before the engine sends the next."""
    gates = [asyncio.Event() for _ in range(10)]
    parts: list[bytes | Step] = [delta("", role="assistant"), delta("first")]
    for number, gate in enumerate(gates):
        parts += [Hold(gate), delta(f"w{number}")]
    node, _ = one(stream([*parts, delta(finish="stop"), DONE]))

    async with gateway(node) as g:
        body = question("chat", stream=True)
        async with g.client.open(PATHS["chat"], body) as opened:
            await opened.text(1)
            for gate in gates:
                gate.set()
                async with asyncio.timeout(1):
                    await opened.text(1)
            got = await opened.rest()

    assert got.done


async def test_half_an_event_waits_for_its_other_half() -> None:
    """Whole events only: no part of an event goes out before its last byte is in."""
    gate = asyncio.Event()
    last = delta("second")
    parts = [delta("", role="assistant"), delta("first"), last[:40], Hold(gate), last[40:]]
    node, _ = one(stream([*parts, delta(finish="stop"), DONE]))

    async with gateway(node) as g:
        async with g.client.open(PATHS["chat"], question("chat", stream=True)) as opened:
            await opened.text(1)
            early = asyncio.create_task(opened.event())
            await asyncio.sleep(0.05)
            assert not early.done()
            gate.set()
            assert (await early).raw == last


async def test_many_events_in_one_read_go_out_as_one_write() -> None:
    events = [delta("", role="assistant"), *(delta(w) for w in WORDS), delta(finish="stop"), DONE]
    node, _ = one(stream([b"".join(events)]))

    async with gateway(node) as g:
        async with g.client.open(PATHS["chat"], question("chat", stream=True)) as opened:
            pieces = []
            while piece := await opened.piece():
                pieces.append(piece)

    assert b"".join(pieces) == b"".join(events)
    assert len(pieces) <= 3


async def test_a_last_event_without_its_blank_line_is_completed() -> None:
    node, _ = one(stream([*chat_events(["a"]), DONE.rstrip(b"\n")]))

    async with gateway(node) as g:
        got = await g.client.ask("chat", stream=True)

    assert got.done


@ROUTES
async def test_the_idle_limit_counts_content_only(dialect: str) -> None:
    """F9, engines.md 4b: comments go on while the engine hangs; the clock is not reset."""

    def answer(received: Received) -> Answer:
        begun = broken_off(3, Pause(0))(received)  # type: ignore[operator]
        return (*begun, *[s for _ in range(40) for s in (Pause(0.05), Send(chunk(b": x\n\n")))])

    engine = FakeEngine("e", otherwise=answer)
    node = Node({"chat": member(engine, {"stream_idle_timeout_s": 0.3})})

    async with gateway(node) as g:
        began = time.perf_counter()
        got = await g.client.ask("chat", dialect=dialect, stream=True)
        took = time.perf_counter() - began
        closed_at = await engine.requests[0].peer_close()

    assert 0.25 < took < 0.8
    assert got.error is not None
    assert not got.done
    assert closed_at - engine.requests[0].at < 0.8


async def test_a_slow_stream_that_delivers_is_never_cut() -> None:
    """NET-04: pauses below the idle limit add up to more than every limit."""
    engine = FakeEngine("e", otherwise=Say(words=("w",) * 8, between=(Pause(0.1),)))
    node = Node({"chat": member(engine, {"stream_idle_timeout_s": 0.3}, timeout=0.4)})

    async with gateway(node) as g:
        got = await g.client.ask("chat", stream=True)

    assert got.done


async def test_events_before_content_are_held_while_another_could_serve() -> None:
    """Section 5, step 7: the role chunk is a promise; after `hold_s` it is let go."""
    gate = asyncio.Event()
    role = delta("", role="assistant")
    a = FakeEngine("a", otherwise=stream([role, Hold(gate), *chat_events(["x"])[1:], DONE]))
    b = FakeEngine("b")
    node = Node(
        {"chat": member(a, timeout=30), "spare": b},
        router={"fallbacks": [{"chat": ["spare"]}]},
        settings={"hold_s": 0.3},
    )

    async with gateway(node) as g:
        async with g.client.sending(PATHS["chat"], question("chat", stream=True)) as opened:
            received = await a.arrived(1)
            await opened.head()
            waited = opened.reply.head_at - received.at
            assert (await opened.event()).raw == role
            gate.set()
            got = await opened.rest()

    assert 0.25 < waited < 0.8
    assert got.done
    assert b.requests == []


async def test_without_another_candidate_events_go_at_once() -> None:
    gate = asyncio.Event()
    role = delta("", role="assistant")
    node, engine = one(stream([role, Hold(gate), *chat_events(["x"])[1:], DONE]))

    async with gateway(node) as g:
        async with g.client.sending(PATHS["chat"], question("chat", stream=True)) as opened:
            received = await engine.arrived(1)
            await opened.head()
            assert opened.reply.head_at - received.at < 0.2
            assert (await opened.event()).raw == role
            gate.set()
            await opened.rest()


@CHAT_ROUTES
async def test_heartbeats_keep_a_silent_stream_open_and_are_no_content(dialect: str) -> None:
    """STR-07, STR-21: exact bytes; no first token; the stall timer runs on."""
    engine = FakeEngine("e", otherwise=Say(before=(Pause(0.5),)))
    node = Node({"chat": engine}, settings={"heartbeat_s": 0.1})

    async with gateway(node) as g:
        got = await g.client.ask("chat", dialect=dialect, stream=True)
        record = await g.record()

    beats = [e for e in got.events if e.data is None]
    assert 3 <= len(beats) <= 5
    assert {e.raw for e in beats} == {b": keep-alive\n\n"}
    assert got.text == "Hello from here"
    assert got.done
    assert record["ttft_ms"] >= 450


async def test_after_a_heartbeat_other_candidates_still_serve() -> None:
    """The first heartbeat fixes status 200 and nothing more."""
    a, b = FakeEngine("a", otherwise=(Silence(),)), FakeEngine("b")
    node = Node(
        {"chat": member(a, timeout=0.35), "spare": b},
        router={"fallbacks": [{"chat": ["spare"]}]},
        settings={"heartbeat_s": 0.1},
    )

    async with gateway(node) as g:
        got = await g.client.ask("chat", stream=True)

    assert got.text == "Hello from here"
    assert got.done
    assert [e.raw for e in got.events][0] == b": keep-alive\n\n"


async def test_after_a_heartbeat_a_final_failure_is_an_error_event() -> None:
    engine = FakeEngine("e", otherwise=(Silence(),))
    node = Node(
        {"chat": member(engine, timeout=0.35)},
        router={"num_retries": 0},
        settings={"heartbeat_s": 0.1},
    )

    async with gateway(node) as g:
        got = await g.client.ask("chat", stream=True)
        record = await g.record()

    assert got.status == 200
    assert got.error is not None
    assert not got.done
    assert record["outcome"] == "failed"


async def test_an_engine_that_sends_no_stream_for_a_stream_is_passed_or_refused() -> None:
    """An engine that ignores `stream` answers whole JSON: the client gets it, or an error."""
    engine = FakeEngine("e", otherwise=lambda r: Say()(_whole(r)))

    async with gateway(Node({"chat": engine}, router={"num_retries": 0})) as g:
        got = await g.client.ask("chat", stream=True)

    assert got.json["choices"] if got.status == 200 else got.error


def _whole(received: Received) -> Received:
    """The same request, as if it had not asked for a stream."""
    body = json.dumps({**received.json, "stream": False}).encode()
    return Received(1, 1, "POST", received.path, received.headers, body, received.at)


async def test_a_slow_reader_stops_the_engine_and_not_the_others() -> None:
    """Write backpressure reaches the engine's socket; memory does not grow with the answer."""
    big = delta("x" * 60_000)
    parts = [delta("", role="assistant"), *[big] * 300, delta(finish="stop"), DONE]  # 18 MB
    slow, fast = FakeEngine("slow", otherwise=stream(parts)), FakeEngine("fast")
    node = Node({"slow": slow, "fast": fast})

    async with gateway(node) as g:
        body = question("slow", stream=True)
        async with g.client.open(PATHS["chat"], body, limit=4096) as opened:
            async with asyncio.timeout(5):
                while not any(c.blocked for c in slow.connections):
                    assert (await g.client.ask("fast")).status == 200
            got = await opened.rest()

    assert got.done
    assert len(got.body) == len(b"".join(parts))


async def test_a_client_that_takes_nothing_is_let_go() -> None:
    """Section 5, step 7: `client_write_timeout_s`."""
    big = delta("x" * 60_000)
    engine = FakeEngine("e", otherwise=stream([*[big] * 300, delta(finish="stop"), DONE]))
    node = Node({"chat": engine}, settings={"client_write_timeout_s": 0.3})

    async with gateway(node) as g:
        body = question("chat", stream=True)
        async with g.client.open(PATHS["chat"], body, limit=4096):
            received = await engine.arrived(1)
            await received.peer_close(3)
            await g.idle()
            record = await g.record()

    assert record["outcome"] in ("cancelled", "failed")


async def test_a_chunked_body_that_is_no_http_is_a_failure() -> None:
    bad = raw(head(chunked=True, content_type="text/event-stream") + b"zz\r\nhello\r\n")
    a, b = FakeEngine("a", otherwise=(*bad, Silence())), FakeEngine("b")
    node = Node({"chat": [member(a, order=1), member(b, order=2)]})

    async with gateway(node) as g:
        got = await g.client.ask("chat", stream=True, within_s=5)

    assert got.deployment == "b"


async def test_the_gap_between_events_is_the_engines() -> None:
    """STR-19: 30 events 15 ms apart arrive apart, not in one burst."""
    parts = spaced([delta(w) for w in WORDS[:30]], 0.015)
    node, _ = one(stream([*parts, delta(finish="stop"), DONE]))

    async with gateway(node) as g:
        async with g.client.open(PATHS["chat"], question("chat", stream=True)) as opened:
            times = [(await opened.event()).at for _ in range(30)]
            await opened.rest()

    gaps = [b - a for a, b in zip(times, times[1:], strict=False)]
    assert sum(gap > 0.005 for gap in gaps) > 24
