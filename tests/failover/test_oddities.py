"""What real engines do under faults, replayed from the bytes that were captured."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from tests.captures import Capture, load
from tests.client import question
from tests.engine import FakeEngine
from tests.engine_answers import Answer, Close, Pause, Send, Step, chunk, raw
from tests.engine_says import DONE, Say, event
from tests.engine_wire import Received
from tests.failover.carried import breaks
from tests.failover.pace import LoopClock
from tests.harness import gateway
from tests.node import Node, member

STREAMED = pytest.mark.parametrize("streamed", [True, False], ids=["streamed", "whole"])


def play(capture: Capture) -> Answer:
    """The captured bytes, and the close that followed them."""
    closes = b"connection: close" in capture.head.lower() or not capture.whole
    return (*raw(capture.raw), Close()) if closes else raw(capture.raw)


def pair(a: FakeEngine, b: FakeEngine, **router: Any) -> Node:
    """The file of the scenarios, without rescue."""
    to_b = [{"chat": ["spare"]}]
    about: dict[str, Any] = {"num_retries": 2, "timeout": 30, "stream_timeout": 12, **router}
    return Node(
        {"chat": a, "spare": b},
        router={"fallbacks": to_b, "cooldown_time": 10, **about},
        settings={"stream_idle_timeout_s": 12},
    )


OVERLOADS = [
    "vllm-0.32.0-scripted/30-overload-3",  # 200, an error event, [DONE]
    "vllm-0.32.0-scripted/30-overload-4",
    "vllm-0.32.0-scripted/30-overload-5",
    "sglang-0.5.23-scripted/30-overload-4",  # 200, an error event, usage of zeros, [DONE]
    "sglang-0.5.23-scripted/30-overload-5",
]


@pytest.mark.parametrize("name", OVERLOADS)
async def test_an_overload_inside_a_200_is_seen_before_the_commit_point(name: str) -> None:
    """The first event is read before a 200 goes out: the caller sees one clean answer."""
    a, b = FakeEngine("a", otherwise=play(load(name))), FakeEngine("b")

    async with gateway(pair(a, b)) as g:
        got = await g.client.ask("chat", stream=True)
        record = await g.record()

    assert got.status == 200
    assert got.text == "Hello from here"
    assert got.error is None
    assert b"503" not in got.body
    assert {x["outcome"] for x in record["attempts"][:-1]} == {"error-event-503"}
    assert (record["prompt_tokens"], record["completion_tokens"]) == (7, 3)


@pytest.mark.parametrize("name", OVERLOADS)
async def test_an_overload_inside_a_200_with_nobody_else_is_a_503(name: str) -> None:
    engine = FakeEngine("e", otherwise=play(load(name)))
    node = Node({"chat": engine}, router={"num_retries": 1, "allowed_fails": 100})

    async with gateway(node) as g:
        got = await g.client.ask("chat", stream=True)
        record = await g.record()

    assert got.status == 503
    assert got.error is not None
    assert len(engine.requests) == 2
    assert (record["outcome"], record["status"]) == ("failed", 503)
    assert not record["completion_tokens"]


async def test_an_engine_killed_in_mid_stream_says_error_then_done() -> None:
    """The error reaches the client, [DONE] does not: it is no success."""
    capture = load("vllm-0.32.0-scripted/40-enginekill-stream")
    engine = FakeEngine("e", otherwise=play(capture))

    async with gateway(Node({"chat": engine})) as g:
        got = await g.client.ask("chat", stream=True)
        record = await g.record()

    assert b"[DONE]" in capture.body
    assert got.body.count(b'"reasoning"') > 3
    assert got.error is not None
    assert "EngineCore" in got.error["message"]
    assert not got.done
    assert record["outcome"] == "failed"
    assert record["attempts"][0]["outcome"] == "error-event-500"
    assert record["completion_tokens"] > 0


@STREAMED
async def test_an_engine_killed_before_content_is_left_for_the_spare(streamed: bool) -> None:
    a = FakeEngine("a", otherwise=play(load("vllm-0.32.0-scripted/40-enginekill-nonstream")))
    b = FakeEngine("b")

    async with gateway(pair(a, b)) as g:
        got = await g.client.ask("chat", stream=streamed)

    assert got.status == 200
    assert got.deployment == "b"


@STREAMED
async def test_an_engine_that_drains_refuses_new_work_with_500(streamed: bool) -> None:
    """After SIGTERM /health stays 200, and new chats get `cannot schedule new futures`."""
    name = "vllm-0.32.0-scripted-noreasoning/90-sigterm-shutdown-timeout-20-chat-after"
    capture = load(name)
    a, b = FakeEngine("a", otherwise=play(capture)), FakeEngine("b")

    async with gateway(pair(a, b, allowed_fails=2), clock=LoopClock()) as g:
        got = [await g.client.ask("chat", stream=streamed) for _ in range(4)]
        records = await g.records(4)

    assert b"cannot schedule new futures after shutdown" in capture.body
    assert {r.deployment for r in got} == {"b"}
    assert len(a.requests) == 3  # then it rests
    assert {x["outcome"] for x in records[0]["attempts"][:-1]} == {"http-500"}


def hangs(received: Received, *, beats: bool) -> Answer:
    """Open streams after SIGTERM: silence, or llama.cpp's comments, until the caller gives up."""
    begun = Say(words=tuple(f"w{n} " for n in range(9)))(received)
    steps: list[Step] = list(begun[:5])
    for _ in range(20):
        steps += [Pause(5.0), *([Send(chunk(b":\n\n"))] if beats else [])]
    return tuple(steps)


@pytest.mark.parametrize("beats", [False, True], ids=["silence", "heartbeats"])
async def test_a_stream_that_hangs_after_sigterm_is_cut_by_the_clock_on_content(
    beats: bool,
) -> None:
    """An idle clock that any byte resets would never run out: it counts content alone."""
    dialects = ("chat", "completions", "messages", "responses")
    engines = {d: FakeEngine(d, otherwise=lambda r: hangs(r, beats=beats)) for d in dialects}
    node = Node(
        {d: member(e, max_parallel_requests=1) for d, e in engines.items()},
        settings={"stream_idle_timeout_s": 12},
    )

    async with gateway(node, clock=LoopClock()) as g:
        asked = (g.client.ask(d, dialect=d, stream=True, within_s=60) for d in dialects)
        got = await asyncio.gather(*asked)
        records = await g.records(4)
        for engine in engines.values():
            await engine.requests[0].peer_close()
            engine.otherwise = Say()
        after = [await g.client.ask(d, dialect=d) for d in dialects]

    assert all(r.error is not None and not r.done for r in got)
    assert all(11_500 < r["duration_ms"] < 14_000 for r in records)
    assert {r["attempts"][0]["outcome"] for r in records} == {"timeout"}
    assert {r.status for r in after} == {200}  # the permit of the frozen stream is back


async def test_the_captured_sigterm_of_an_engine_that_drains_well_is_no_fault() -> None:
    """SGLang answers in-flight and even new requests while it drains."""
    for name in ("90-sigterm-midstream-nonstream", "90-sigterm-midstream-chat-after"):
        engine = FakeEngine("e", otherwise=play(load(f"sglang-0.5.23-scripted/{name}")))
        async with gateway(Node({"chat": engine})) as g:
            got = await g.client.ask("chat")

        assert got.status == 200
        assert len(engine.requests) == 1


# llama.cpp's words for an embedding above its batch, as captured, and vLLM's for the same.
TOO_LONG: dict[str, Answer] = {
    "llama.cpp": play(load("llamacpp-b11549-scripted/60-emb-too-long")),
    "vLLM": play(load("vllm-0.32.0-embed/17-emb-too-long")),
    "vLLM, characters": play(load("vllm-0.32.0-embed/17e-emb-too-long-chars")),
    "vLLM, one of a list": play(load("vllm-0.32.0-embed/17b-emb-too-long-one-of-list")),
}


@pytest.mark.parametrize("engine", TOO_LONG)
async def test_an_embedding_that_is_too_long_is_the_clients_400(engine: str) -> None:
    """Llama.cpp says 500: it is not tried again and does not count against health."""
    fake = FakeEngine("e", otherwise=TOO_LONG[engine])
    node = Node(
        {"emb": member(fake, {"mode": "embedding"})},
        router={"num_retries": 2, "allowed_fails": 0, "cooldown_time": 60},
    )

    async with gateway(node, clock=LoopClock()) as g:
        got = [await g.client.ask("emb", dialect="embeddings") for _ in range(3)]
        fake.otherwise = Say()
        good = await g.client.ask("emb", dialect="embeddings")
        records = await g.records(4)

    assert [r.status for r in got] == [400, 400, 400]
    assert {r.json["error"]["code"] for r in got} == {"context_length_exceeded"}
    assert len(fake.requests) == 4
    assert good.status == 200
    assert [r["outcome"] for r in records] == ["refused"] * 3 + ["ok"]


# Prompt plus max_tokens above the window: three engines, three answers.
OVER: dict[str, tuple[str, str]] = {
    "vLLM clamps": ("vllm-0.32.0-scripted/24b-prompt-plus-max-over", "asked"),
    "llama.cpp stops at the end": ("llamacpp-b11549-scripted/24b-prompt-plus-max-over", "asked"),
    "SGLang refuses": ("sglang-0.5.23-scripted/24b-prompt-plus-max-over", "larger"),
    "vLLM refuses max_tokens alone": ("vllm-0.32.0-chat/17c-chat-max-tokens-over", "larger"),
}


@pytest.mark.parametrize("how", OVER)
async def test_prompt_plus_max_tokens_over_the_window(how: str) -> None:
    """Where an engine answers, its answer passes; where it refuses, the larger model is asked."""
    name, who = OVER[how]
    capture = load(name)
    asked, larger, spare = FakeEngine("asked", otherwise=play(capture)), *others()
    node = Node(
        {"chat": asked, "larger": larger, "spare": spare},
        router={
            "context_window_fallbacks": [{"chat": ["larger"]}],
            "fallbacks": [{"chat": ["spare"]}],
            "allowed_fails": 0,
        },
    )

    async with gateway(node) as g:
        got = await g.client.post(capture.path, question("chat", max_tokens=5000), quotes=True)

    assert got.status == 200
    assert got.deployment == who
    assert len(asked.requests) == 1
    assert spare.requests == []
    assert got.body == capture.body or who == "larger"


async def test_more_answer_than_the_model_has_is_the_clients_fault() -> None:
    """SGLang's words for max_tokens alone above the window blame the request, not the prompt."""
    capture = load("sglang-0.5.23-chat/17c-chat-max-tokens-over")
    a, b = FakeEngine("a", otherwise=play(capture)), FakeEngine("b")

    async with gateway(pair(a, b)) as g:
        got = await g.client.ask("chat", max_tokens=5000)

    assert got.status == 400
    assert "at most 1024 completion tokens" in got.json["error"]["message"]
    assert (len(a.requests), len(b.requests)) == (1, 0)


def others() -> tuple[FakeEngine, FakeEngine]:
    """A larger model and an ordinary spare."""
    return FakeEngine("larger"), FakeEngine("spare")


FLAT = [
    "sglang-0.5.23-chat/20-err-bad-json",
    "sglang-0.5.23-chat/21-err-no-messages",
    "sglang-0.5.23-chat/22-err-bad-type",
    "sglang-0.5.23-chat/22b-err-range",
    "sglang-0.5.23-chat/27-err-role",
]


@pytest.mark.parametrize("name", FLAT)
@pytest.mark.parametrize("dialect", ["chat", "messages"])
async def test_a_flat_error_becomes_the_envelope_of_the_path(name: str, dialect: str) -> None:
    """One attempt; status and words kept; the server's own file paths are not."""
    capture = load(name)
    engine = FakeEngine("e", otherwise=play(capture))

    async with gateway(Node({"chat": engine}, router={"num_retries": 2})) as g:
        got = await g.client.ask("chat", dialect=dialect)

    said = got.json["error"]
    assert got.status == capture.status
    assert {"message", "type"} <= set(said)
    assert (got.json.get("type") == "error") == (dialect == "messages")
    assert said["message"][:20] == capture.json["message"][:20]
    assert "site-packages" not in got.body.decode()
    assert len(engine.requests) == 1


async def test_a_queue_that_is_full_is_a_flat_503_and_moves_on() -> None:
    a = FakeEngine("a", otherwise=play(load("sglang-0.5.23-scripted/32-overload-nonstream")))
    b = FakeEngine("b")

    async with gateway(pair(a, b)) as g:
        got = await g.client.ask("chat")

    assert got.deployment == "b"
    assert load("sglang-0.5.23-scripted/32-overload-nonstream").status == 503


async def test_an_engine_that_takes_any_name_is_not_asked_with_the_clients() -> None:
    """SGLang answers 200 for unknown names: the gateway's own names decide, 404 is its own."""
    capture = load("sglang-0.5.23-chat/23-err-unknown-model")
    engine = FakeEngine("e", otherwise=play(capture))

    async with gateway(Node({"chat": engine})) as g:
        unknown = await g.client.ask("no-such-model")
        known = await g.client.ask("chat")

    assert capture.status == 200
    assert unknown.status == 404
    assert known.status == 200
    assert [r.json["model"] for r in engine.requests] == ["e-model"]


@pytest.mark.parametrize("dialect", ["messages", "responses"])
async def test_an_error_in_chats_form_inside_another_dialects_stream_is_one(dialect: str) -> None:
    """Engines report their own death in one form on all paths: the client gets its dialect's."""
    inner = {"message": "EngineCore encountered an issue", "type": "server_error", "code": 500}
    end = (Send(chunk(event({"error": inner}) + DONE)), Send(b"0\r\n\r\n"))
    engine = FakeEngine("e", otherwise=breaks(*end))

    async with gateway(Node({"chat": engine})) as g:
        got = await g.client.ask("chat", dialect=dialect, stream=True)
        record = await g.record()

    errors = [e for e in got.events if e.data and "error" in e.json.get("type", "error")]
    assert len(errors) == 1
    assert errors[0].json["type"] == "error"
    assert "EngineCore" in json.dumps(errors[0].json)
    assert not got.done
    assert record["attempts"][0]["outcome"] == "error-event-500"


async def test_comments_before_the_first_token_commit_to_nothing_and_move_no_clock() -> None:
    """F7, llama.cpp's heartbeats in a long prefill: another candidate still serves in time."""

    def late(received: Received) -> Answer:
        first, *rest = Say()(received)
        return (first, *[s for _ in range(4) for s in (Pause(5.0), Send(chunk(b":\n\n")))], *rest)

    a, b = FakeEngine("a", otherwise=late), FakeEngine("b")

    async with gateway(pair(a, b), clock=LoopClock()) as g:
        got = await g.client.ask("chat", stream=True, within_s=60)
        record = await g.record()

    assert got.text == "Hello from here"
    assert got.error is None
    assert got.done
    assert [(x["deployment"], x["outcome"]) for x in record["attempts"]] == [
        ("a", "timeout"),
        ("b", "ok"),
    ]
    assert 11_500 < record["duration_ms"] < 14_000


async def test_comments_before_a_failure_do_not_stop_another_attempt() -> None:
    """The same engine alone: a comment went out, and the second attempt still serves."""

    def dies_late(received: Received) -> Answer:
        return (Say()(received)[0], Send(chunk(b":\n\n")), Close())

    engine = FakeEngine("e", script=[dies_late])

    async with gateway(Node({"chat": engine}), clock=LoopClock()) as g:
        got = await g.client.ask("chat", stream=True)

    assert got.text == "Hello from here"
    assert got.done
    assert len(engine.requests) == 2


async def test_comments_before_a_final_failure_are_followed_by_an_error_event() -> None:
    def dies_late(received: Received) -> Answer:
        return (Say()(received)[0], Send(chunk(b":\n\n")), Close())

    engine = FakeEngine("e", otherwise=dies_late)
    node = Node({"chat": engine}, router={"num_retries": 1})

    async with gateway(node, clock=LoopClock()) as g:
        got = await g.client.ask("chat", stream=True)
        record = await g.record()

    assert got.error is not None
    assert not got.done
    assert record["outcome"] == "failed"
    assert not record["completion_tokens"]
