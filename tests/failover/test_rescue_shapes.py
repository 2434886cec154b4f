"""Rescue: events and prompts of shapes that nobody expects."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.client import PATHS, question
from tests.engine_answers import Answer, Send, chunk
from tests.engine_says import event
from tests.engine_wire import Received
from tests.failover.carried import (
    breaks,
    carries_on,
    pair,
    whole,
)
from tests.failover.reply import WHOLE
from tests.harness import gateway

ROUTES = pytest.mark.parametrize("dialect", ["chat", "completions", "messages", "responses"])

ODD: list[Any] = [
    {"choices": "x"},
    {"choices": [None]},
    {"choices": [{"index": 0, "delta": "x"}]},
    {"choices": [{"index": 0, "delta": {"content": ["x"]}}]},
    {"choices": [{"index": "a", "text": 3, "finish_reason": None}]},
    {"type": "content_block_start", "content_block": "x"},
    {"type": "content_block_delta", "delta": None},
    {"type": 7},
    {"type": []},
    {"type": "ping", "choices": 5},
    {"type": "response.completed", "response": {"output": 5}, "sequence_number": "x"},
    {"type": "response.in_progress", "response": 5, "item_id": 5, "item": 5},
    {"type": "response.output_item.added", "item": "x"},
    {"type": "response.output_text.delta", "delta": 5},
    {"error": None},
    [1, 2],
    "x",
]


ENDS = {
    "chat": b"[DONE]",
    "completions": b"[DONE]",
    "messages": b'"message_stop"',
    "responses": b'"output_tokens"',
}


@ROUTES
@pytest.mark.parametrize("odd", ODD, ids=str)
async def test_odd_events_break_neither_a_sound_stream_nor_a_rescue(dialect: str, odd: Any) -> None:
    """Shapes that nobody expects pass, and are never joined into another answer by accident."""
    for a, b in ((sound(odd), carries_on), (breaks(), sound(odd))):
        node, first, _ = pair(a, b, ways=["replay"])
        async with gateway(node) as g:
            body = question("chat", dialect, stream=True)
            async with g.client.open(PATHS[dialect], body) as opened:
                got = await opened.rest()

        failed = b"broke off" in got.body
        ended = ENDS[dialect] in got.body
        assert ended != failed
        assert got.body.count(b'"word39 "') == 1
        assert got.body.count(b'"word59 "') == ended
        assert len(first.requests) == 1


def sound(odd: Any) -> Any:
    """A whole answer with an odd event before its first word."""

    def answer(received: Received) -> Answer:
        steps = whole()(received)
        first = next(n for n, s in enumerate(steps) if isinstance(s, Send) and b"word0" in s.data)
        return (*steps[:first], Send(chunk(event(json.dumps(odd)))), *steps[first:])

    return answer


PROMPTS: dict[str, Any] = {"text in a list": ["say it"], "tokens": [1, 2, 3]}


@pytest.mark.parametrize("form", PROMPTS)
async def test_a_prompt_that_is_no_text_is_replayed(form: str) -> None:
    """Only a text can be made longer by a text."""
    node, _, b = pair(breaks(), whole())

    async with gateway(node) as g:
        body = {"prompt": PROMPTS[form], "stream": True}
        got = await g.client.ask("chat", dialect="completions", **body)

    assert got.text == WHOLE
    assert b.bodies[0]["prompt"] == PROMPTS[form]
