"""Bodies: bad ones are refused in the dialect of the path, good ones arrive untouched."""

from __future__ import annotations

import asyncio
import gzip
import json
from typing import Any

import pytest

from tests import markers
from tests.client import PATHS, question
from tests.engine import FakeEngine
from tests.harness import gateway
from tests.node import Node, member

ROUTES = pytest.mark.parametrize("dialect", list(PATHS))
GOOD = json.dumps(question("chat")).encode()
BAD: dict[str, bytes] = {
    "empty": b"",
    "no JSON": b"{model: chat}",
    "cut": GOOD[:-3],
    "a list": b'["chat"]',
    "a string": b'"chat"',
    "null": b"null",
    "no model": b'{"messages": []}',
    "model is null": b'{"model": null, "messages": []}',
    "model is a number": b'{"model": 7, "messages": []}',
    "not UTF-8": b'{"model": "chat", "messages": "\xff\xfe"}',
    "two bodies": GOOD + GOOD,
    "a key twice": b'{"model": "chat", "messages": [], "model": "chat"}',
    "a key twice, escaped": b'{"model": "chat", "messages": [], "\\u006dodel": "other"}',
    "stream twice": b'{"model": "chat", "stream": false, "messages": [], "stream": true}',
}


@pytest.mark.parametrize("case", BAD)
@ROUTES
async def test_a_bad_body_is_400_in_the_dialect_of_the_path(dialect: str, case: str) -> None:
    engine = FakeEngine("e")

    async with gateway(Node({"chat": engine})) as g:
        got = await g.client.post(PATHS[dialect], BAD[case])
        record = await g.record()

    anthropic = dialect in ("messages", "count_tokens")
    assert got.status == 400
    assert (got.json.get("type") == "error") == anthropic
    assert {"message", "type"} <= set(got.json["error"])
    assert engine.requests == []
    assert record["outcome"] == "refused"


@ROUTES
async def test_a_body_above_the_limit_is_413_before_it_is_read(dialect: str) -> None:
    """BIG-01: said at once, by the length alone."""
    engine = FakeEngine("e")
    node = Node({"chat": engine}, settings={"max_body_mb": 1})

    async with gateway(node) as g:
        length = {"Content-Length": str(2 * 1024 * 1024)}
        async with asyncio.timeout(2):
            async with g.client.open(PATHS[dialect], b"{", headers=length) as opened:
                got = await opened.rest()

    assert got.status == 413
    assert (got.json.get("type") == "error") == (dialect in ("messages", "count_tokens"))
    assert engine.requests == []


async def test_a_chunked_body_above_the_limit_is_413_without_reading_the_rest() -> None:
    engine = FakeEngine("e")
    node = Node({"chat": engine}, settings={"max_body_mb": 1})

    async with gateway(node) as g:
        reader, writer = await asyncio.open_connection("127.0.0.1", g.port)
        writer.write(
            b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
            + f"Authorization: Bearer {g.client.key}\r\n".encode()
            + b"Transfer-Encoding: chunked\r\n\r\n"
        )
        piece = b"10000\r\n" + b"x" * 65536 + b"\r\n"
        for _ in range(20):
            writer.write(piece)
        async with asyncio.timeout(2):
            first = await reader.readline()
        writer.close()

    assert b" 413 " in first
    assert engine.requests == []


@pytest.mark.parametrize("kind", ["gzip", "deflate"])
async def test_a_compressed_body_is_counted_after_inflation(kind: str) -> None:
    """A small gzip that inflates beyond the limit is 413, and is not inflated whole."""
    engine = FakeEngine("e")
    node = Node({"chat": engine}, settings={"max_body_mb": 1})
    bomb = gzip.compress(json.dumps(question("chat", x="a" * 20_000_000)).encode())

    async with gateway(node) as g:
        got = await g.client.post(PATHS["chat"], bomb, headers={"Content-Encoding": "gzip"})

    assert got.status == 413
    assert engine.requests == []


async def test_a_compressed_body_arrives_inflated() -> None:
    engine = FakeEngine("e")

    async with gateway(Node({"chat": engine})) as g:
        body = gzip.compress(GOOD)
        got = await g.client.post(PATHS["chat"], body, headers={"Content-Encoding": "gzip"})
        broken = await g.client.post(PATHS["chat"], body[:-9], headers={"Content-Encoding": "gzip"})
        other = await g.client.post(PATHS["chat"], b"xx", headers={"Content-Encoding": "br"})

    assert got.status == 200
    assert engine.requests[0].json["messages"] == json.loads(GOOD)["messages"]
    assert broken.status == 400
    assert other.status in (400, 415)
    assert len(engine.requests) == 1


@pytest.mark.parametrize("megabytes", [0.9, 1.1, 5, 12, 40])
async def test_a_large_body_arrives_equal_while_others_are_served(megabytes: float) -> None:
    """BIG-01: base64 images of any size below the limit; others' requests stay quick."""
    engine = FakeEngine("e")
    image = "data:image/png;base64," + "QUJD" * int(megabytes * 250_000)
    part = {"type": "image_url", "image_url": {"url": image}}
    body = question("chat") | {"messages": [{"role": "user", "content": [part]}]}

    async with gateway(Node({"chat": engine})) as g:
        large = asyncio.create_task(g.client.post(PATHS["chat"], body, within_s=20))
        while not large.done():
            small = await g.client.ask("chat")
            assert small.status == 200
        got = await large

    arrived = next(r for r in engine.requests if len(r.body) > 500_000)
    assert got.status == 200
    assert arrived.json == {**body, "model": "e-model"}


ODD_VALUES = (
    b'{ "model" : "chat",\n\t'
    b'"messages": [{"role":"user","content":"\\u00e9\\ud83d\\ude80 \xc3\xa9"}],'
    b'"top_k": 20, "min_p":0.10, "seed": 12345678901234567890, "temperature": 1e-1, "x": 1.0,'
    b'"chat_template_kwargs": {"enable_thinking": false}, "guided_json": {"b":1,"a":[2,{}]},'
    b'"priority": -1, "stop_token_ids": [1,2], "return_token_ids": true, "nothing": null,'
    b'"deep": {"model": "inner", "api_key": "theirs"}, "unicode\\u006bey": "v" }'
)


async def test_values_reach_the_engine_byte_for_byte() -> None:
    """Promise 8, PRM-01: numbers, escapes, order inside values: untouched."""
    engine = FakeEngine("e")

    async with gateway(Node({"chat": engine})) as g:
        got = await g.client.post(PATHS["chat"], ODD_VALUES)

    sent = engine.requests[0].body
    assert got.status == 200
    assert json.loads(sent) == {**json.loads(ODD_VALUES), "model": "e-model"}
    for value in (
        b'[{"role":"user","content":"\\u00e9\\ud83d\\ude80 \xc3\xa9"}]',
        b"12345678901234567890",
        b"0.10",
        b"1e-1",
        b'{"b":1,"a":[2,{}]}',
        b'{"model": "inner", "api_key": "theirs"}',
    ):
        assert value in sent


async def test_defaults_give_way_and_extra_body_wins() -> None:
    """Section 4: known engine keys are defaults; `extra_body` is merged object by object."""
    engine = FakeEngine("e")
    node = Node(
        {
            "chat": member(
                engine,
                temperature=0.5,
                top_k=40,
                additional_drop_params=["min_p", "logit_bias"],
                extra_body={"chat_template_kwargs": {"enable_thinking": False}, "priority": 3},
            )
        }
    )

    async with gateway(node) as g:
        await g.client.ask(
            "chat",
            temperature=0.9,
            min_p=0.1,
            logit_bias={},
            priority=9,
            chat_template_kwargs={"enable_thinking": True, "lang": "en"},
        )
        await g.client.ask("chat")

    first, second = engine.bodies
    assert (first["temperature"], first["top_k"], first["priority"]) == (0.9, 40, 3)
    assert first["chat_template_kwargs"] == {"enable_thinking": False, "lang": "en"}
    assert not {"min_p", "logit_bias"} & set(first)
    assert (second["temperature"], second["priority"]) == (0.5, 3)


POISONED: dict[str, Any] = {"two objects": '{"a": 1}{"b": 2}', "empty": "", "cut": '{"a": '}


@pytest.mark.parametrize("arguments", POISONED)
async def test_poisoned_tool_arguments_pass_unchanged(arguments: str) -> None:
    """FBK-12: never read, never mended, never a fault."""
    engine = FakeEngine("e")
    call = {
        "id": "A",
        "type": "function",
        "function": {"name": "f", "arguments": POISONED[arguments]},
    }
    messages = [{"role": "assistant", "content": None, "tool_calls": [call]}]

    async with gateway(Node({"chat": engine})) as g:
        got = await g.client.ask("chat", messages=messages)

    assert got.status == 200
    assert engine.bodies[0]["messages"] == messages


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE"])
async def test_a_wrong_method_is_405(method: str) -> None:
    async with gateway(Node({"chat": FakeEngine("e")})) as g:
        got = await g.client.post(PATHS["chat"], None, method=method)

    assert got.status == 405
    assert got.json["error"]["type"]


async def test_a_long_prompt_skips_small_windows_and_images_never_do() -> None:
    """Step 3: the low estimate: bytes outside `data:` strings divided by 8."""
    small, large = FakeEngine("small"), FakeEngine("large")
    node = Node(
        {
            "chat": member(small, {"max_input_tokens": 100}),
            "large": member(large, {"max_input_tokens": 100_000}),
        },
        router={"context_window_fallbacks": [{"chat": ["large"]}]},
    )
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "A" * 5000}}

    async with gateway(node) as g:
        long = await g.client.ask("chat", messages=[{"role": "user", "content": "x" * 4000}])
        picture = await g.client.ask("chat", messages=[{"role": "user", "content": [image]}])

    assert (long.deployment, picture.deployment) == ("large", "small")


@pytest.mark.parametrize("dialect", ["chat", "messages"])
async def test_a_prompt_that_fits_nowhere_is_400(dialect: str) -> None:
    engine = FakeEngine("e")
    node = Node({"chat": member(engine, {"max_input_tokens": 100})})

    async with gateway(node) as g:
        got = await g.client.ask(
            "chat", dialect=dialect, messages=[{"role": "user", "content": "x" * 4000}]
        )

    assert got.status == 400
    assert got.json["error"]["code"] == "context_length_exceeded"
    assert engine.requests == []
    assert not markers.seen(got.body)
