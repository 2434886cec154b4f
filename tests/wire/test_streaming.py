"""Streams: whole events in their own bytes, the moment they are in; nothing broken looks whole."""

from __future__ import annotations

import asyncio

import pytest

from tests.client import PATHS, question
from tests.engine import FakeEngine
from tests.engine_answers import (
    Answer,
    Hold,
    Part,
    bytewise,
    stream,
)
from tests.engine_says import DONE, chat_events, delta, event, usage, usage_event
from tests.harness import gateway
from tests.node import Node, member

WORDS = [f"word{n} " for n in range(60)]
ROUTES = pytest.mark.parametrize("dialect", ["chat", "completions", "messages", "responses"])
CHAT_ROUTES = pytest.mark.parametrize("dialect", ["chat", "messages"])


def one(*answers: Answer, **info: object) -> tuple[Node, FakeEngine]:
    engine = FakeEngine("e", script=answers)
    return Node({"chat": member(engine, info or None)}, router={"num_retries": 0}), engine


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
    parts: list[Part] = [delta("", role="assistant"), delta("first")]
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
    halves: list[Part] = [last[:40], Hold(gate), last[40:]]
    parts: list[Part] = [delta("", role="assistant"), delta("first"), *halves]
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
