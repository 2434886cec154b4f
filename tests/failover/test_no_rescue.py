"""Rescue: what is never carried on, or cannot be: the error of the break, and nothing else."""

from __future__ import annotations

from typing import Any

import pytest

from tests.engine import FakeEngine
from tests.engine_answers import Answer, Close, Reset, Send, chunk, error, reply, stream
from tests.engine_says import DONE, delta, event, usage_event
from tests.engine_says import usage as totals
from tests.failover.carried import (
    BOTH_WAYS,
    SENT,
    breaks,
    carries_on,
    pair,
    whole,
)
from tests.failover.reply import WHOLE, WORDS, finished
from tests.harness import gateway

ROUTES = pytest.mark.parametrize("dialect", ["chat", "completions", "messages", "responses"])
WAYS = pytest.mark.parametrize("way", BOTH_WAYS)
PLAIN = {"accepts_prefix": False}


async def test_an_error_event_that_blames_the_client_is_not() -> None:
    says = event({"error": {"message": "bad input", "type": "BadRequestError", "code": 400}})
    node, _, b = pair(breaks(Send(chunk(says)), Send(b"0\r\n\r\n")), carries_on)

    async with gateway(node) as g:
        got = await g.client.ask("chat", stream=True)

    assert got.error is not None
    assert not got.done
    assert b.requests == []


CONSTRAINED: dict[str, dict[str, Any]] = {
    "response_format": {"response_format": {"type": "json_schema", "json_schema": {}}},
    "guided_json": {"guided_json": {"type": "object"}},
    "guided_choice": {"guided_choice": ["yes", "no"]},
    "guided_grammar": {"guided_grammar": "root ::= 'a'"},
    "structured_outputs": {"structured_outputs": {"regex": "a+"}},
    "grammar": {"grammar": "root ::= 'a'"},
    "json_schema": {"json_schema": "{}"},
    "regex": {"regex": "a+"},
    "ebnf": {"ebnf": "root ::= 'a'"},
    "text.format": {"text": {"format": {"type": "json_schema", "schema": {}}}},
}


@ROUTES
@pytest.mark.parametrize("name", CONSTRAINED)
async def test_constrained_output_is_never_carried_on(dialect: str, name: str) -> None:
    node, _, b = pair(breaks(), carries_on)

    async with gateway(node) as g:
        got = await g.client.ask("chat", dialect=dialect, stream=True, **CONSTRAINED[name])

    assert got.text == SENT
    assert got.error is not None
    assert b.requests == []


def call(**function: str) -> bytes:
    """A chunk with a tool call."""
    return delta(tool_calls=[{"index": 0, "id": "call_1", "function": function}])


BEGUN: dict[str, list[bytes]] = {
    "a tool's name": [delta("Let me see. "), call(name="weather")],
    "a tool's arguments": [delta("Let me see. "), call(arguments='{"city"')],
    "reasoning": [delta(reasoning="hm"), delta("So ")],
    "reasoning, by its older name": [delta(reasoning_content="hm"), delta("So ")],
    "a refusal": [delta("I "), delta(refusal="cannot")],
    "text after a finish reason": [delta("a", finish="stop"), delta("b")],
}


@pytest.mark.parametrize("what", BEGUN)
@WAYS
async def test_what_is_more_than_text_is_never_carried_on(what: str, way: str) -> None:
    begun = stream([delta("", role="assistant"), *BEGUN[what]])
    node, _, b = pair((*begun[:-1], Close()), whole(), ways=[way])

    async with gateway(node) as g:
        got = await g.client.ask("chat", stream=True)

    assert got.error is not None
    assert not got.done
    assert b.requests == []


ANSWERS: dict[str, list[bytes]] = {
    "a tool call": [delta(SENT), call(name="weather", arguments="{}"), delta(finish="tool_calls")],
    "reasoning": [delta(reasoning="hm"), delta(WHOLE), delta(finish="stop")],
    "another opening": [delta("no " + WHOLE), delta(finish="stop")],
    "less than was sent": [delta(SENT[:30]), delta(finish="stop")],
    "nothing": [delta(finish="stop")],
}


@pytest.mark.parametrize("what", ANSWERS)
async def test_a_second_answer_that_does_not_fit_is_the_error_of_the_break(what: str) -> None:
    """The client has what A said and hears that A broke; the record counts what was delivered."""
    second = stream([delta("", role="assistant"), *ANSWERS[what], usage_event(totals(5, 9)), DONE])
    node, _, b = pair(breaks(), second, ways=["replay"])

    async with gateway(node) as g:
        got = await g.client.ask("chat", stream=True)
        record = await g.record()

    assert got.text == SENT
    assert got.error is not None
    assert got.error["code"] == "upstream_failed"
    assert not finished(got)
    assert len(b.requests) == 1
    assert record["outcome"] == "failed"
    assert [x["deployment"] for x in record["attempts"]] == ["a", "b"]
    assert 38 <= record["completion_tokens"] <= 42
    assert record["estimated"] is True


FAILURES: dict[str, Answer] = {
    "400": error(400, "must end with a user message"),
    "401": error(401),
    "404": error(404),
    "429": error(429),
    "503": error(503),
    "too long": error(400, "too long", code="context_length_exceeded"),
    "reset": (Reset(),),
    "whole JSON": reply({"choices": [], "usage": totals(3, 99)}),
    "HTML": reply("<html>hello</html>", content_type="text/html"),
    "an empty stream": stream([]),
    "an error event": stream([event({"error": {"message": "busy", "code": 503}}), DONE]),
}


@pytest.mark.parametrize("how", FAILURES)
@pytest.mark.parametrize("dialect", ["chat", "messages"])
async def test_a_spare_that_fails_leaves_the_error_of_the_break(dialect: str, how: str) -> None:
    """F14: what the spare says to a rescue never reaches the client."""
    node, _, b = pair(breaks(), FAILURES[how])

    async with gateway(node) as g:
        got = await g.client.ask("chat", dialect=dialect, stream=True)
        record = await g.record()

    assert got.status == 200
    assert got.text == SENT
    assert got.error is not None
    assert "broke off" in got.error["message"]
    assert not got.done
    assert 1 <= len(b.requests) <= 2
    assert (record["outcome"], record["error"]) == ("failed", "upstream_failed")
    assert 38 <= record["completion_tokens"] <= 42


async def test_a_second_break_after_the_seam_is_the_end() -> None:
    """Two voices were joined already: a third is not asked."""
    c = FakeEngine("c", otherwise=whole())
    node, *_ = pair(breaks(), breaks(words=50), c, ways=["replay"])

    async with gateway(node) as g:
        got = await g.client.ask("chat", stream=True)
        record = await g.record()

    assert got.text == "".join(WORDS[:50])
    assert got.error is not None
    assert not got.done
    assert c.requests == []
    assert record["outcome"] == "failed"
    assert 48 <= record["completion_tokens"] <= 52


async def test_a_mute_spare_is_given_up_after_one_wait() -> None:
    """Never again after a timeout: each further try costs the caller another full wait."""
    node, _, b = pair(breaks(), FakeEngine("x", held=True).otherwise)
    b.otherwise = ()
    await b.hold()

    async with gateway(node) as g:
        got = await g.client.ask("chat", stream=True, within_s=60)
        closed = [await r.peer_close() for r in b.requests]

    assert got.error is not None
    assert len(b.requests) == len(closed) == 1


REFUSED: dict[str, dict[str, Any]] = {
    "header": {"headers": {"X-No-Fallback": "true"}},
    "body": {"disable_fallbacks": True},
}


@pytest.mark.parametrize("how", REFUSED)
async def test_a_client_that_wants_no_fallback_gets_no_rescue(how: str) -> None:
    node, _, b = pair(breaks(), carries_on)

    async with gateway(node) as g:
        got = await g.client.ask("chat", stream=True, **REFUSED[how])

    assert got.error is not None
    assert b.requests == []


async def test_without_the_setting_nothing_is_carried_on() -> None:
    node, _, b = pair(breaks(), carries_on, rescue={})

    async with gateway(node) as g:
        got = await g.client.ask("chat", stream=True)

    assert got.error is not None
    assert b.requests == []


async def test_what_an_engine_would_repeat_is_not_continued() -> None:
    """An engine that echoes its prompt would say the partial text again."""
    node, _, b = pair(breaks(), whole(("echo of the prompt ",)), ways=["continue"])

    async with gateway(node) as g:
        got = await g.client.ask("chat", dialect="completions", stream=True, echo=True)

    assert got.text == SENT
    assert got.error is not None
    assert b.requests == []
