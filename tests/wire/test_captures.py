"""Every captured answer through the gateway: the client gets the engine's own bytes.

What section 5 of the design changes is named here: an error event or an error body that is not in
the path's envelope, the engine's refusal of the gateway's key, and a success mark after an error.
"""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from gateway.dialects import PATHS
from tests.captures import Capture, engines, every, load
from tests.client import Reply, question
from tests.engine import FakeEngine
from tests.engine_answers import Answer, Close, bytewise, raw
from tests.harness import Running, gateway
from tests.node import Node, member
from tests.sse import Event, events_of

# Each answer stands alone: nothing is tried again, and no failure rests the deployment.
ALONE = {"num_retries": 0, "allowed_fails": 100_000}
ANSWERS = [c for c in every() if c.path.removeprefix("/v1") in PATHS]
STREAMS = [c for c in ANSWERS if c.streamed]


def of(engine: str) -> list[Capture]:
    return [c for c in ANSWERS if c.name.startswith(engine + "/")]


def node(engine: FakeEngine) -> Node:
    return Node({"m": member(engine)}, router=ALONE)


def play(capture: Capture, answer: Answer | None = None) -> Answer:
    """The captured bytes, and the close that followed them."""
    answer = answer or raw(capture.raw)
    closes = b"connection: close" in capture.head.lower() or not capture.whole
    return (*answer, Close()) if closes else answer


def asked(capture: Capture) -> Any:
    """The captured request for our group; a good one where the engine was sent nonsense."""
    try:
        body = json.loads(capture.request)
    except ValueError:
        body = {}
    if not isinstance(body, dict) or "model" not in body:
        return question("m", PATHS[capture.path.removeprefix("/v1")])
    return re.sub(rb'"model": *"[^"]*"', b'"model": "m"', capture.request, count=1)


async def replay(
    running: Running, engine: FakeEngine, capture: Capture, answer: Answer | None = None
) -> Reply:
    """What a client gets to the captured request, if the engine gives the captured answer."""
    engine.script.append(play(capture, answer))
    return await running.client.post(capture.path, asked(capture), within_s=5, quotes=True)


def wrong(capture: Capture, reply: Reply) -> str | None:
    """What is wrong with the reply, or None."""
    if not reply.whole:
        return "the gateway's own body was cut"
    if capture.streamed:
        return wrong_stream(capture, reply)
    if capture.status < 400:
        same = reply.status == capture.status and reply.body == capture.body
        return None if same else "not the engine's bytes"
    return wrong_error(capture, reply)


def wrong_stream(capture: Capture, reply: Reply) -> str | None:
    sound, failed = sound_events(capture)
    if failed and not any(b'"content":"' in e.raw or b"delta" in e.raw for e in sound):
        return None if reply.status == 503 and reply.error else "no 503 for an error event"
    expected = b"".join(e.raw for e in sound)
    if not failed and capture.whole:
        return None if reply.body == expected else "not the engine's events"
    if not reply.body.startswith(expected):
        return "not the engine's events before the break"
    return None if reply.error and not reply.done else "a break without an error, or a success mark"


def sound_events(capture: Capture) -> tuple[list[Event], bool]:
    """The events before the first error event, and whether there is one.

    Without the usage event of a client that did not ask for it (vLLM can force it on).
    """
    body = capture.body[: capture.body.rfind(b"\n\n") + 2]
    events = events_of(body)
    if b"include_usage" not in capture.request:
        events = [e for e in events if not only_usage(e)]
    for n, event in enumerate(events):
        if event.data and not event.done and isinstance(event.json.get("error"), dict):
            return events[:n], True
    return events, False


def only_usage(event: Event) -> bool:
    return event.raw.startswith(b"data: {") and event.json.get("choices") == []


def wrong_error(capture: Capture, reply: Reply) -> str | None:
    if capture.status == 401:
        code = reply.status == 502 and reply.json["error"]["code"] == "upstream_misconfigured"
        return None if code else "not told apart from a refused client"
    wanted = 400 if capture.status == 500 and overflowed(capture) else capture.status
    if reply.status != wanted:
        return f"status {reply.status}, the engine said {capture.status}"
    if has_envelope(capture) and reply.body == capture.body:
        return None
    error = reply.json["error"]
    if overflowed(capture) and error["code"] == "context_length_exceeded":
        return None
    if has_envelope(capture):
        return "an error in the path's envelope was changed"
    missing = {"message", "type", "code"} - set(error)
    if missing or engine_text(capture)[:40] not in error["message"]:
        return f"wrapped without {missing or 'the text of the engine'}"
    return None


def has_envelope(capture: Capture) -> bool:
    data = capture.json
    if not isinstance(data, dict) or not isinstance(data.get("error"), dict):
        return False
    anthropic = "/messages" in capture.path
    return "message" in data["error"] and (data.get("type") == "error") == anthropic


def overflowed(capture: Capture) -> bool:
    words = (
        b"max_model_len",
        b"context length",
        b"context size",
        b"too long",
        b"maximum input",
        b"characters",
        b"too large to process",
    )
    return any(word in capture.body.lower() for word in words)


def engine_text(capture: Capture) -> str:
    """The engine's own words, wherever its error shape has them."""
    data = capture.json
    if isinstance(data, dict):
        inner = data.get("error", data)
        inner = inner if isinstance(inner, dict) else {"message": inner}
        text = inner.get("message") or inner.get("detail") or ""
        return text if isinstance(text, str) else ""
    return capture.body.decode()


@pytest.mark.parametrize("name", engines())
async def test_every_captured_answer_reaches_the_client_as_the_engine_said_it(name: str) -> None:
    engine = FakeEngine("e")
    found: dict[str, str] = {}

    async with gateway(node(engine)) as g:
        for capture in of(name):
            if problem := wrong(capture, await replay(g, engine, capture)):
                found[capture.name] = problem

    assert found == {}


@pytest.mark.parametrize("name", engines())
async def test_every_captured_stream_survives_one_byte_a_read(name: str) -> None:
    """STR-10: characters and events cut at every byte, in the chunk framing too."""
    engine = FakeEngine("e")
    found: dict[str, str] = {}

    async with gateway(node(engine)) as g:
        for capture in of(name):
            if not capture.streamed or len(capture.raw) > 4000:
                continue
            answer = bytewise(raw(capture.raw))
            if problem := wrong(capture, await replay(g, engine, capture, answer)):
                found[capture.name] = problem

    assert found == {}


@pytest.mark.parametrize(
    "name",
    [
        "llamacpp-b11549-scripted/11-emoji-stream",
        "vllm-0.32.0-scripted/11-silent-stream",
        "llamacpp/73-messages-stream",
        "llamacpp-b11549-scripted/10-emoji",
    ],
)
async def test_a_cut_at_every_boundary_of_an_answer_changes_nothing(name: str) -> None:
    """STR-10: two reads, cut at each byte of the head, the framing and the events."""
    capture, engine = load(name), FakeEngine("e")
    found: dict[int, str] = {}

    async with gateway(node(engine)) as g:
        for cut in range(1, len(capture.raw), 5):
            answer = raw(capture.raw, pieces=[cut])
            if problem := wrong(capture, await replay(g, engine, capture, answer)):
                found[cut] = problem

    assert found == {}


async def test_a_captured_request_reaches_the_engine_with_only_its_model_changed() -> None:
    """Promise 8, PRM-01: every captured request, value by value."""
    engine = FakeEngine("e")

    async with gateway(node(engine)) as g:
        for capture in ANSWERS:
            if not isinstance(sent := asked(capture), bytes):
                continue
            engine.script.append(play(capture))
            await g.client.post(capture.path, sent, within_s=5, quotes=True)
            got, wanted = engine.requests[-1].json, json.loads(sent)

            options = got.pop("stream_options", None)
            assert wanted.pop("stream_options", {}) in (options, {}) or options, capture.name
            assert got == {**wanted, "model": "e-model"}, capture.name
