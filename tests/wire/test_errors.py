"""Errors at the client: never an empty 200, one envelope for each dialect, and nothing inside."""

from __future__ import annotations

import pytest

from tests.client import PATHS, Reply
from tests.engine import FakeEngine
from tests.engine_answers import RESET, error, reply
from tests.harness import gateway
from tests.node import Node

ROUTES = pytest.mark.parametrize("dialect", list(PATHS))
STREAMED = pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])


def is_envelope(reply: Reply, dialect: str) -> bool:
    """The shape that client libraries of the dialect read."""
    data = reply.json
    inner = data["error"]
    if dialect in ("messages", "count_tokens"):
        return bool(data["type"] == "error" and inner["type"] and inner["message"])
    return {"message", "type", "param", "code"} <= set(inner) and "type" not in data


@ROUTES
@STREAMED
@pytest.mark.parametrize("status", [429, 500, 503])
async def test_an_engines_error_keeps_its_status_class_and_message(
    dialect: str, streamed: bool, status: int
) -> None:
    """ERR-01: also for a stream: the status comes before the first event."""
    engine = FakeEngine("e", otherwise=error(status, "what the engine said"))

    async with gateway(Node({"chat": engine}, router={"num_retries": 0})) as g:
        got = await g.client.ask("chat", dialect=dialect, stream=streamed)

    assert got.status == status
    assert "what the engine said" in got.json["error"]["message"]
    assert is_envelope(got, dialect)
    assert got.headers["content-type"].startswith("application/json")


@ROUTES
async def test_a_dead_engine_is_an_error_without_its_address(dialect: str) -> None:
    engine = FakeEngine("secret-host", phase="closed")

    async with gateway(Node({"chat": engine}, router={"num_retries": 0})) as g:
        got = await g.client.ask("chat", dialect=dialect)

    assert got.status == 502
    assert is_envelope(got, dialect)
    assert str(engine.port).encode() not in got.body
    assert b"127.0.0.1" not in got.body
    assert b"Error(" not in got.body
    assert b"Errno" not in got.body


@ROUTES
async def test_a_reset_is_an_error_in_the_dialect(dialect: str) -> None:
    engine = FakeEngine("e", otherwise=RESET)

    async with gateway(Node({"chat": engine}, router={"num_retries": 0})) as g:
        got = await g.client.ask("chat", dialect=dialect)

    assert got.status == 502
    assert is_envelope(got, dialect)


@ROUTES
async def test_the_gateways_headers_are_on_errors_too(dialect: str) -> None:
    engine = FakeEngine("e", status=500)

    async with gateway(Node({"chat": engine}, router={"num_retries": 0})) as g:
        failed = await g.client.ask("chat", dialect=dialect)
        unknown = await g.client.ask("nope", dialect=dialect)

    for got in (failed, unknown):
        assert got.headers["x-gateway-request-id"]
        assert got.headers["x-gateway-config"]
    assert failed.attempts == 1


@pytest.mark.parametrize("dialect", ["chat", "messages"])
async def test_both_fail_and_the_client_gets_an_answer_in_bounded_time(dialect: str) -> None:
    """The spare fails as well: A's error, or both."""
    a = FakeEngine("a", otherwise=error(503, "A is overloaded"))
    b = FakeEngine("b", otherwise=reply("<html>", 502))
    node = Node(
        {"chat": a, "spare": b},
        router={"fallbacks": [{"chat": ["spare"]}], "num_retries": 1, "allowed_fails": 99},
    )

    async with gateway(node) as g:
        got = await g.client.ask("chat", dialect=dialect, within_s=5)

    assert got.status in (502, 503)
    assert is_envelope(got, dialect)


async def test_an_unknown_path_is_404_in_json() -> None:
    async with gateway(Node({"chat": FakeEngine("e")})) as g:
        got = await g.client.post("/v1/nonsense", {"model": "chat"})

    assert got.status == 404
    assert got.json["error"]["code"]
