"""An Anthropic client on an engine that speaks chat alone: what it gets, over real sockets."""

from __future__ import annotations

from typing import Any

import pytest

from tests.bridge.conftest import Start
from tests.client import Reply
from tests.engine import FakeEngine
from tests.engine_answers import Answer, reply, stream
from tests.engine_says import DONE, delta, usage, usage_event
from tests.node import Member, Node, member

CHAT_ONLY = {"apis": ["chat"]}


def chat_only(engine: FakeEngine, **params: Any) -> Member:
    return member(engine, CHAT_ONLY, **params)


def call(arguments: str, **head: Any) -> dict[str, Any]:
    name = {"name": head.pop("name")} if "name" in head else {}
    return {**head, "function": {**name, "arguments": arguments}}


def says(*events: bytes, total: dict[str, Any] | None = None) -> Answer:
    return stream([*events, usage_event(total or usage()), DONE])


def more(text: str) -> Any:
    return text


async def asked(bridged: Start, engine: FakeEngine, **more: Any) -> tuple[Reply, dict[str, Any]]:
    async with bridged(Node({"chat": chat_only(engine)})) as g:
        got = await g.client.ask("chat", dialect="messages", stream=True, **more)
        record = await g.record()
    return got, record


def kinds(got: Reply) -> list[str]:
    return [str(e.name) for e in got.events if e.data is not None]


def blocks(got: Reply) -> list[tuple[str, str]]:
    """(type, text or tool and input) of each content block, as a client puts them together."""
    found: dict[int, list[str]] = {}
    for event in (e.json for e in got.events if e.data is not None):
        if event["type"] == "content_block_start":
            block = event["content_block"]
            assert event["index"] == len(found), "blocks out of order"
            found[event["index"]] = [block["type"], block.get("name", "")]
        elif event["type"] == "content_block_delta":
            said = event["delta"]
            found[event["index"]][1] += (
                said.get("text") or said.get("thinking") or said.get("partial_json") or ""
            )
    return [(kind, text) for kind, text in found.values()]


def ending(got: Reply) -> dict[str, Any]:
    """The message_delta."""
    [found] = [e.json for e in got.events if e.name == "message_delta"]
    return dict(found)


async def test_text_then_a_tool_ends_with_tool_use(bridged: Start) -> None:
    """STR-23: the blocks in order, the stop reason, usage, and one end."""
    engine = FakeEngine(
        otherwise=says(
            delta("", role="assistant"),
            delta("Let me see."),
            delta(tool_calls=[call("", id="A", index=0, type="function", name="f")]),
            delta(tool_calls=[call('{"city"', index=0)]),
            delta(tool_calls=[call(': "Köln"}', index=0)]),
            delta(finish="tool_calls"),
        )
    )

    got, record = await asked(bridged, engine)

    assert blocks(got) == [("text", "Let me see."), ("tool_use", 'f{"city": "Köln"}')]
    assert ending(got)["delta"]["stop_reason"] == "tool_use"
    assert ending(got)["usage"]["output_tokens"] == 3
    assert [k for k in kinds(got) if not k.startswith("content")] == [
        "message_start",
        "message_delta",
        "message_stop",
    ]
    assert record["outcome"] == "ok"
    assert (record["prompt_tokens"], record["completion_tokens"]) == (7, 3)
    assert record["estimated"] is False


async def test_a_tool_call_that_ends_with_stop_is_tool_use(bridged: Start) -> None:
    """STR-12."""
    engine = FakeEngine(
        otherwise=says(
            delta(tool_calls=[call("{}", id="A", index=0, type="function", name="f")]),
            delta(finish="stop"),
        )
    )

    got, _ = await asked(bridged, engine)

    assert ending(got)["delta"]["stop_reason"] == "tool_use"


async def test_tool_calls_without_a_call_is_the_end_of_the_turn(bridged: Start) -> None:
    """STR-13: a client that waits for a call would hang."""
    engine = FakeEngine(otherwise=says(delta("Hi"), delta(finish="tool_calls")))

    got, _ = await asked(bridged, engine)

    assert ending(got)["delta"]["stop_reason"] == "end_turn"


async def test_two_parallel_calls_at_index_0_are_two_blocks(bridged: Start) -> None:
    """STR-14."""
    engine = FakeEngine(
        otherwise=says(
            delta(tool_calls=[call('{"a":1}', id="A", index=0, type="function", name="f")]),
            delta(tool_calls=[call('{"b":2}', id="B", index=0, type="function", name="g")]),
            delta(finish="tool_calls"),
        )
    )

    got, _ = await asked(bridged, engine)

    assert blocks(got) == [("tool_use", 'f{"a":1}'), ("tool_use", 'g{"b":2}')]


async def test_interleaved_calls_are_whole_blocks_in_order(bridged: Start) -> None:
    engine = FakeEngine(
        otherwise=says(
            delta(
                tool_calls=[
                    call('{"a"', id="A", index=0, type="function", name="f"),
                    call('{"b"', id="B", index=1, type="function", name="g"),
                ]
            ),
            delta(tool_calls=[call(":1}", index=0), call(":2}", index=1)]),
            delta(finish="tool_calls"),
        )
    )

    got, _ = await asked(bridged, engine)

    assert blocks(got) == [("tool_use", 'f{"a":1}'), ("tool_use", 'g{"b":2}')]


@pytest.mark.parametrize(
    "names", [["reasoning"], ["reasoning_content"], ["reasoning", "reasoning_content"]]
)
async def test_reasoning_is_a_thinking_block(bridged: Start, names: list[str]) -> None:
    """STR-17, and STR-26: a finish reason on a reasoning chunk closes nothing."""
    engine = FakeEngine(
        otherwise=says(
            delta(finish="stop", **{name: more("Hm, ") for name in names}),
            delta(**{name: more("so.") for name in names}),
            delta("Hi"),
            delta(finish="stop"),
            total=usage(completion_tokens_details={"reasoning_tokens": 2}),
        )
    )

    got, record = await asked(bridged, engine)

    assert blocks(got) == [("thinking", "Hm, so."), ("text", "Hi")]
    assert ending(got)["delta"]["stop_reason"] == "end_turn"
    assert kinds(got).count("message_stop") == 1
    assert record["ttft_ms"] is not None


@pytest.mark.parametrize(("said", "reason"), [("stop", "end_turn"), ("length", "max_tokens")])
@pytest.mark.parametrize("with_text", [True, False])
async def test_the_finish_reason_reaches_the_client(
    bridged: Start, said: str, reason: str, with_text: bool
) -> None:
    """STR-25: in an empty last chunk, and together with the last text."""
    last = delta(" you", finish=said) if with_text else delta(finish=said)
    engine = FakeEngine(otherwise=says(delta("Hi"), last))

    got, _ = await asked(bridged, engine)

    assert ending(got)["delta"]["stop_reason"] == reason
    assert blocks(got) == [("text", "Hi you" if with_text else "Hi")]


async def test_cached_tokens_are_apart_from_input_tokens(bridged: Start) -> None:
    """ACC-07: Anthropic's input_tokens leave out what came from the cache; the record does not."""
    total = usage(150000, 5, prompt_tokens_details={"cached_tokens": 149900})
    engine = FakeEngine(otherwise=says(delta("Hi"), delta(finish="stop"), total=total))

    got, record = await asked(bridged, engine)

    assert ending(got)["usage"]["input_tokens"] == 100
    assert ending(got)["usage"]["cache_read_input_tokens"] == 149900
    assert (record["prompt_tokens"], record["cached_tokens"]) == (150000, 149900)


async def test_a_stream_without_an_end_is_an_error_event(bridged: Start) -> None:
    """STR-01: no message_stop; the record says failed."""
    engine = FakeEngine(otherwise=stream([delta("Hi"), delta(" you")]))

    got, record = await asked(bridged, engine)

    assert got.error is not None
    assert "message_stop" not in kinds(got)
    assert record["outcome"] == "failed"


async def test_an_engines_error_event_is_one_in_the_clients_dialect(bridged: Start) -> None:
    """STR-03."""
    broken = b'data: {"error": {"message": "out of memory", "type": "x", "code": 500}}\n\n'
    engine = FakeEngine(otherwise=stream([delta("Hi"), broken, DONE]))

    got, record = await asked(bridged, engine)

    assert got.events[-1].name == "error"
    assert got.events[-1].json["type"] == "error"
    assert record["outcome"] == "failed"


async def test_a_whole_answer_has_the_same_blocks(bridged: Start) -> None:
    message = {
        "role": "assistant",
        "content": "Hi",
        "reasoning": "Hm.",
        "tool_calls": [
            {"id": "A", "type": "function", "function": {"name": "f", "arguments": '{"a": 1}'}}
        ],
    }
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    body = {"id": "c", "object": "chat.completion", "created": 1, "model": "what-it-said"}
    engine = FakeEngine(otherwise=reply({**body, "choices": [choice], "usage": usage()}))

    async with bridged(Node({"chat": chat_only(engine)})) as g:
        got = await g.client.ask("chat", dialect="messages")

    assert [b["type"] for b in got.json["content"]] == ["thinking", "text", "tool_use"]
    assert got.json["content"][2]["input"] == {"a": 1}
    assert got.json["stop_reason"] == "tool_use"
    assert got.json["model"] == "what-it-said"
    assert got.json["usage"]["input_tokens"] == 7
