"""The seam of two answers: whatever an engine sends, it is joined well or not at all."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.config.config import Dialect
from gateway.exchange import Broken, Request
from gateway.keys import Client
from gateway.rescue import Rescue
from gateway.routing.facts import RequestFacts
from gateway.sse import Scanner
from tests.captures import load
from tests.harness import configured
from tests.node import Elsewhere, Node
from tests.sse import events_of

DIALECTS: tuple[Dialect, ...] = ("chat", "completions", "messages", "responses")
WORDS = (
    *("type", "choices", "delta", "text", "content", "index", "finish_reason", "usage", "role"),
    *("item", "item_id", "response", "output", "id", "model", "error", "sequence_number"),
    *("content_block", "part", "message", "tool_calls", "output_index", "object"),
)
KINDS = (
    *("content_block_delta", "text_delta", "message_delta", "message", "output_text", "text"),
    *("response.output_text.delta", "response.completed", "response.output_item.added"),
)
LEAVES = st.none() | st.booleans() | st.integers() | st.sampled_from(KINDS) | st.text(max_size=3)
VALUES = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(WORDS), inner, max_size=4)
    ),
    max_leaves=12,
)
SPARE = configured(
    Node({"spare": Elsewhere("spare", "http://127.0.0.1:9/v1")}), Path("activity.jsonl")
).deployments[0]
EVENTS = st.lists(st.dictionaries(st.sampled_from(WORDS), VALUES, max_size=5), max_size=4)


def rescue(dialect: Dialect) -> Rescue:
    facts = RequestFacts(dialect=dialect, prompt_tokens=1, max_tokens=1, fallbacks=True)
    request = Request(
        id=b"1",
        dialect=dialect,
        client=Client(name="tester", admin=False, names=frozenset()),
        fields={},
        model="m",
        task=None,
        stream=True,
        wants_usage=True,
        facts=facts,
    )
    return Rescue(request, ("replay",))


def body(events: list[Any]) -> bytes:
    return b"".join(b"data: %b\n\n" % json.dumps(e).encode() for e in events)


@given(first=EVENTS, second=EVENTS, dialect=st.sampled_from(DIALECTS))
@settings(max_examples=600, deadline=None)
def test_no_event_of_any_shape_raises_anything_but_broken(
    first: list[Any], second: list[Any], dialect: Dialect
) -> None:
    """STR-04: an error of the gateway's own here would cut the client's body."""
    made = rescue(dialect)

    sent = made.note(Scanner(dialect).feed(body(first)))
    made.request_for(SPARE, "replay")
    try:
        joined = made.join(Scanner(dialect).feed(body(second)))
    except Broken:
        joined = b""

    events_of(sent)
    events_of(joined)


# Streams of one plain text in several events, as engines sent them.
CAPTURED: dict[str, Dialect] = {
    "llamacpp/71-responses-stream": "responses",
    "vllm-0.32.0-chat/71-responses-stream": "responses",
    "llamacpp/73-messages-stream": "messages",
    "vllm-0.32.0-chat/73-messages-stream": "messages",
    "llamacpp/51-completions-stream": "completions",
    "vllm-0.32.0-chat/51-completions-stream": "completions",
    "llamacpp/12-chat-stream-usage": "chat",
    "vllm-0.32.0-chat/12-chat-stream-usage": "chat",
    "llamacpp-b11549-scripted/11-emoji-stream": "chat",
}


@pytest.mark.parametrize("name", CAPTURED)
def test_an_engines_stream_broken_after_any_event_is_whole_again_by_a_replay(name: str) -> None:
    """The joined stream reads, event by event, as the one that was not broken."""
    dialect, events = CAPTURED[name], [e.raw for e in events_of(load(name).body)]
    again = b"".join(events).replace(b'"id":"', b'"id":"other-').replace(b'_id":"', b'_id":"other-')

    for count in range(1, len(events)):
        made = rescue(dialect)
        sent = made.note(b"".join(events[:count]))
        if not made.possible:
            continue
        made.request_for(SPARE, "replay")
        joined = events_of(sent + made.join(again))

        assert [meaning(e.json) for e in joined if not e.done and e.data] == [
            meaning(e.json) for e in events_of(b"".join(events)) if not e.done and e.data
        ], count


def meaning(event: dict[str, Any]) -> dict[str, Any]:
    """An event without what may differ between two runs: who said it first, and when."""
    return {k: v for k, v in event.items() if k not in ("created", "created_at")}
