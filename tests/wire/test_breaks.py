"""Streams that break: nothing broken is dressed as complete."""

from __future__ import annotations

import json
import time
from collections.abc import Callable

import pytest

from tests.engine import FakeEngine
from tests.engine_answers import (
    Answer,
    Close,
    Pause,
    Reset,
    Send,
    Silence,
    Step,
    chunk,
    head,
    raw,
    stream,
)
from tests.engine_says import DONE, Say, chat_events, event
from tests.engine_wire import Received
from tests.harness import gateway
from tests.node import Node, member

WORDS = [f"word{n} " for n in range(60)]


ROUTES = pytest.mark.parametrize("dialect", ["chat", "completions", "messages", "responses"])


CHAT_ROUTES = pytest.mark.parametrize("dialect", ["chat", "messages"])


def one(*answers: Answer, **info: object) -> tuple[Node, FakeEngine]:
    engine = FakeEngine("e", script=answers)
    return Node({"chat": member(engine, info or None)}, router={"num_retries": 0}), engine


def broken_off(words: int, how: Step) -> Callable[[Received], Answer]:
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
    a = FakeEngine("a", otherwise=broken_off(40, BREAKS[how]))
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
        a = FakeEngine("a", otherwise=broken_off(3, Reset()))
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


async def test_a_last_event_without_its_blank_line_is_completed() -> None:
    node, _ = one(stream([*chat_events(["a"]), DONE.rstrip(b"\n")]))

    async with gateway(node) as g:
        got = await g.client.ask("chat", stream=True)

    assert got.done


@ROUTES
async def test_the_idle_limit_counts_content_only(dialect: str) -> None:
    """F9, engines.md 4b: comments go on while the engine hangs; the clock is not reset."""

    def answer(received: Received) -> Answer:
        begun = broken_off(3, Pause(0))(received)
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


async def test_a_chunked_body_that_is_no_http_is_a_failure() -> None:
    bad = raw(head(chunked=True, content_type="text/event-stream") + b"zz\r\nhello\r\n")
    a, b = FakeEngine("a", otherwise=(*bad, Silence())), FakeEngine("b")
    node = Node({"chat": [member(a, order=1), member(b, order=2)]})

    async with gateway(node) as g:
        got = await g.client.ask("chat", stream=True, within_s=5)

    assert got.deployment == "b"
