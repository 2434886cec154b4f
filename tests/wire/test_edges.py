"""Edges: what no well-behaved client or engine sends, and what must not bring anything down."""

from __future__ import annotations

import asyncio
import gzip
import json
from typing import Any

import pytest

from tests.client import PATHS, question
from tests.clock import Clock
from tests.engine import FakeEngine
from tests.engine_answers import Answer, Close, Part, Pause, Reset, Send, error, raw, reply, stream
from tests.engine_says import DONE, Say, chat_events, delta, event
from tests.harness import gateway
from tests.node import Node, member

ONCE = {"num_retries": 0, "allowed_fails": 999}
DEEP = b"[" * 50_000 + b"]" * 50_000


def choice(index: int, content: str | None, finish: str | None = None) -> bytes:
    inner = {} if content is None else {"content": content}
    data = {"index": index, "delta": inner, "finish_reason": finish}
    return event({"id": "x", "object": "chat.completion.chunk", "model": "m", "choices": [data]})


UNFINISHED: dict[str, list[bytes]] = {
    "one of two choices": [choice(0, "a"), choice(1, "b"), choice(0, None, "stop")],
    "a finish reason, then more text (STR-26)": [
        delta(reasoning="hm", finish="stop"),
        delta("a"),
    ],
}


@pytest.mark.parametrize("case", UNFINISHED)
async def test_a_clean_end_before_everything_is_finished_is_no_success(case: str) -> None:
    """F11's other side: a finish reason counts only for what it finished."""
    engine = FakeEngine("e", otherwise=stream(UNFINISHED[case]))

    async with gateway(Node({"chat": engine}, router=ONCE)) as g:
        got = await g.client.ask("chat", stream=True)
        record = await g.record()

    assert got.error is not None
    assert not got.done
    assert record["outcome"] == "failed"


@pytest.mark.parametrize("how", [Close(), Reset()], ids=["FIN", "RST"])
async def test_after_the_terminator_a_missing_last_chunk_does_no_harm(how: Close | Reset) -> None:
    parts: list[Part] = [*chat_events(["a"]), DONE, how]
    engine = FakeEngine("e", otherwise=stream(parts, end=False))

    async with gateway(Node({"chat": engine}, router=ONCE)) as g:
        got = await g.client.ask("chat", stream=True)
        record = await g.record()

    assert got.done
    assert got.error is None
    assert record["outcome"] == "ok"


WAITS = [
    "99999999999999999999",
    "1e300",
    "-5",
    "nan",
    "inf",
    "soon",
    "",
    "0",
    "1.5",
    "Fri, 31 Feb 2031 99:99:99 GMT",
    "\u00b2",
]


@pytest.mark.parametrize("wait", WAITS)
@pytest.mark.parametrize("status", [429, 503])
async def test_any_retry_after_is_survived(wait: str, status: int, clock: Clock) -> None:
    said = error(status, headers=[("retry-after", wait.encode().decode("latin-1"))])
    a, b = FakeEngine("a", otherwise=said), FakeEngine("b")
    node = Node({"chat": a, "spare": b}, router={**ONCE, "fallbacks": [{"chat": ["spare"]}]})

    async with gateway(node, clock=clock) as g:
        got = await g.client.ask("chat")
        clock.tick(3700.0)
        a.otherwise = Say()
        later = await g.client.ask("chat")

    assert got.deployment == "b"
    assert later.deployment == "a"


ODD_FIELDS: dict[str, Any] = {
    "stream": "yes",
    "stream_options": [],
    "max_tokens": "many",
    "metadata": "text",
    "messages": 7,
    "user": None,
    "disable_fallbacks": "maybe",
    "max_completion_tokens": -1,
}


@pytest.mark.parametrize("name", ODD_FIELDS)
@pytest.mark.parametrize("dialect", ["chat", "messages", "responses"])
async def test_a_field_of_a_wrong_type_is_passed_or_refused(name: str, dialect: str) -> None:
    """Never a 500: the engine judges what is its own, the gateway what it reads."""
    engine = FakeEngine("e")
    body = question("chat", dialect) | {name: ODD_FIELDS[name]}

    async with gateway(Node({"chat": engine})) as g:
        got = await g.client.post(PATHS[dialect], body)

    assert got.status in (200, 400)
    if got.status == 200 and name != "disable_fallbacks":
        assert engine.bodies[0][name] == ODD_FIELDS[name]


@pytest.mark.parametrize("dialect", ["chat", "messages", "embeddings"])
async def test_deep_nesting_in_a_body_brings_nothing_down(dialect: str) -> None:
    engine = FakeEngine("e", otherwise=reply('{"id": "x", "choices": []}'))
    body = b'{"model": "chat", "messages": ' + DEEP + b"}"

    async with gateway(Node({"chat": engine})) as g:
        got = await g.client.post(PATHS[dialect], body)
        good = await g.client.ask("chat")

    assert got.status in (200, 400)
    assert good.status == 200


async def test_deep_nesting_in_an_answer_brings_nothing_down() -> None:
    whole = reply(b'{"id": "x", "usage": {"prompt_tokens": 1}, "x": ' + DEEP + b"}")
    odd = b'data: {"choices": [{"delta": {"content": ' + DEEP + b"}}]}\n\n"
    streamed = stream([*chat_events(["a"])[:2], odd, delta("b", finish="stop"), DONE])
    engine = FakeEngine("e", script=[whole, streamed])

    async with gateway(Node({"chat": engine}, router=ONCE)) as g:
        async with g.client.open(PATHS["chat"], question("chat")) as opened:
            await opened.rest()
            assert opened.status in (200, 502)
        async with g.client.open(PATHS["chat"], question("chat", stream=True)) as opened:
            assert opened.status == 200
            while await opened.piece():
                pass
        good = await g.client.ask("chat")
        await g.records(3)

    assert good.status == 200


async def test_an_event_that_never_ends_is_a_failure_and_not_all_the_memory() -> None:
    endless = [b"data: " + b"x" * 1_000_000] + [b"x" * 1_000_000] * 20
    engine = FakeEngine("e", otherwise=stream([delta("a"), *endless, b"\n\n", DONE]))

    async with gateway(Node({"chat": engine}, router=ONCE)) as g:
        got = await g.client.ask("chat", stream=True)
        record = await g.record()

    assert got.error is not None
    assert not got.done
    assert record["outcome"] == "failed"


HEADS: dict[str, bytes] = {
    "no length, closed": b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\nBODY",
    "HTTP/1.0": b"HTTP/1.0 200 OK\r\ncontent-type: application/json\r\n\r\nBODY",
    "an informational answer first": b"HTTP/1.1 103 Early Hints\r\nlink: </x>\r\n\r\n"
    b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\nBODY",
    "chunk extensions and trailers": b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n"
    b"transfer-encoding: chunked\r\n\r\nLEN;x=y\r\nBODY\r\n0\r\nx-trailer: 1\r\n\r\n",
    "no reason": b"HTTP/1.1 200 \r\ncontent-type: application/json\r\n\r\nBODY",
}


@pytest.mark.parametrize("case", HEADS)
async def test_every_legal_way_to_end_a_body_is_understood(case: str) -> None:
    body = b'{"id": "x", "object": "chat.completion", "choices": []}'
    data = HEADS[case].replace(b"LEN", b"%x" % len(body)).replace(b"BODY", body)
    engine = FakeEngine("e", otherwise=(*raw(data), Close()))

    async with gateway(Node({"chat": engine}, router=ONCE)) as g:
        got = await g.client.ask("chat")

    assert got.status == 200
    assert got.body == body


ILLEGAL: dict[str, Answer] = {
    "two lengths": raw(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\ncontent-length: 5\r\n\r\n{}abc"),
    "no HTTP": raw(b"SSH-2.0-OpenSSH_9.2\r\n"),
    "a head without end": (*raw(b"HTTP/1.1 200 OK\r\nx: "), Send(b"y" * 300_000)),
    "gzip that nobody asked for": reply(
        gzip.compress(b"{}"), headers=[("content-encoding", "gzip")]
    ),
    "an empty 204": raw(b"HTTP/1.1 204 No Content\r\n\r\n"),
    "a body that is no JSON": reply("OK"),
    "a cut JSON": reply('{"id": "x", "choices": ['),
}


@pytest.mark.parametrize("case", ILLEGAL)
async def test_what_is_no_answer_moves_on(case: str) -> None:
    a, b = FakeEngine("a", otherwise=(*ILLEGAL[case], Close())), FakeEngine("b")
    node = Node({"chat": [member(a, order=1), member(b, order=2)]}, router={"num_retries": 1})

    async with gateway(node) as g:
        got = await g.client.ask("chat", within_s=5)

    assert got.deployment == "b"
    assert got.status == 200


async def test_bytes_that_follow_an_answer_are_not_the_next_ones() -> None:
    """A connection with something left over is not used again: answers cannot be swapped."""
    first = (
        *reply(b'{"id": "first", "choices": []}'),
        Send(b'HTTP/1.1 200 OK\r\ncontent-length: 14\r\n\r\n{"id": "evil"}'),
    )
    engine = FakeEngine("e", script=[first], otherwise=reply(b'{"id": "own", "choices": []}'))

    async with gateway(Node({"chat": engine}, router=ONCE)) as g:
        one = await g.client.ask("chat")
        two = await g.client.ask("chat")

    assert (one.json["id"], two.json["id"]) == ("first", "own")


@pytest.mark.parametrize("task", ["t\u00efitle", "title ", "TITLE", "a" * 5000, "../title"])
async def test_odd_task_names_are_refused_and_not_stored(task: str) -> None:
    engine = FakeEngine("e")
    node = Node({"chat": engine}, tiers={"auxiliary": ["chat"]}, pins={"title": "chat"})

    async with gateway(node) as g:
        headers = {"X-Task": task.encode().decode("latin-1")}
        got = await g.client.post(PATHS["chat"], question("chat"), headers=headers)
        record = await g.record()

    assert got.status == (200 if task.strip() == "title" else 400)
    assert record["task"] in (None, "title")
    assert json.dumps(record)


async def test_a_heartbeat_then_the_clients_fault_is_an_error_event() -> None:
    engine = FakeEngine("e", otherwise=(Pause(0.25), *error(400, "bad top_k")))
    node = Node({"chat": engine}, router=ONCE, settings={"heartbeat_s": 0.1})

    async with gateway(node) as g:
        got = await g.client.ask("chat", stream=True)
        record = await g.record()

    assert got.status == 200
    assert got.error is not None
    assert "bad top_k" in got.error["message"]
    assert not got.done
    assert record["outcome"] in ("failed", "refused")


async def test_a_stream_waits_for_its_permit_under_heartbeats() -> None:
    """A client that waits in the queue is kept awake as well."""
    engine = FakeEngine("e", held=True)
    node = Node({"chat": member(engine, max_parallel_requests=1)}, settings={"heartbeat_s": 0.1})

    async with gateway(node) as g:
        first = asyncio.create_task(g.client.ask("chat"))
        await engine.arrived(1)
        async with g.client.open(PATHS["chat"], question("chat", stream=True)) as opened:
            assert (await opened.event()).raw == b": keep-alive\n\n"
            await engine.release()
            got = await opened.rest()
        await first

    assert got.text == "Hello from here"
    assert got.done


async def test_the_clients_address_is_the_sockets_peer() -> None:
    """Section 6: not what a header says."""
    engine = FakeEngine("e")

    async with gateway(Node({"chat": engine})) as g:
        await g.client.ask(
            "chat", headers={"X-Forwarded-For": "6.6.6.6", "Forwarded": "for=6.6.6.6"}
        )
        record = await g.record()

    assert record["client_ip"] == "127.0.0.1"
