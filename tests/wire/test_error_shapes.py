"""Every shape of an engine's error becomes the envelope of the path."""

from __future__ import annotations

import time

import pytest

from tests.engine import FakeEngine
from tests.engine_answers import Answer, error, reply, stream
from tests.engine_says import DONE, event
from tests.harness import gateway
from tests.node import Node, member

SHAPES: dict[str, tuple[Answer, str]] = {
    "flat, numeric code": (
        reply(
            {"object": "error", "message": "bad top_k", "type": "BadRequestError", "code": 400}, 400
        ),
        "bad top_k",
    ),
    "nested": (error(400, "bad top_k"), "bad top_k"),
    "FastAPI detail list": (
        reply({"detail": [{"loc": ["body", "top_k"], "msg": "bad top_k", "type": "int"}]}, 400),
        "bad top_k",
    ),
    "FastAPI detail text": (reply({"detail": "bad top_k"}, 400), "bad top_k"),
    "a string": (reply({"error": "bad top_k"}, 400), "bad top_k"),
    "plain text": (reply("bad top_k", 400, content_type="text/plain"), "bad top_k"),
    "empty": (reply(b"", 400, content_type=None), ""),
    "HTML": (reply("<html><h1>bad top_k</h1></html>", 400, content_type="text/html"), ""),
    "a list": (reply([1, 2], 400), ""),
    "not UTF-8": (reply(b"\xff\xfe bad top_k", 400), ""),
}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dialect", ["chat", "messages", "responses", "embeddings"])
async def test_every_error_shape_becomes_the_envelope_of_the_path(shape: str, dialect: str) -> None:
    """ERR-03: message, type and code; status and the engine's text kept."""
    said, text = SHAPES[shape]
    engine = FakeEngine("a", otherwise=said)

    async with gateway(Node({"chat": engine})) as g:
        got = await g.client.ask("chat", dialect=dialect)

    assert got.status == 400
    assert {"message", "type"} <= set(got.json["error"])
    assert text in str(got.json["error"]["message"])
    assert (got.json.get("type") == "error") == (dialect == "messages")
    assert "code" in got.json["error"] or dialect == "messages"
    assert isinstance(got.json["error"]["message"], str)


async def test_wrapped_errors_show_no_paths_addresses_or_endless_text() -> None:
    """ERR-03, section 5: at most 2 kB of the engine's text, without file paths and addresses."""
    leaky = "Traceback in /usr/lib/python3/site.py at http://10.1.2.3:8000/v1 from 10.1.2.3:5 "
    said = reply({"message": leaky + "x" * 10_000, "code": 400}, 400)
    engine = FakeEngine("a", otherwise=said)

    async with gateway(Node({"chat": engine})) as g:
        got = await g.client.ask("chat")

    assert got.status == 400
    assert b"/usr/lib" not in got.body
    assert b"10.1.2.3" not in got.body
    assert len(got.json["error"]["message"]) <= 2100


FORMS = {"seconds": ("7", 7), "a date": ("DATE", 7), "milliseconds": ("MS", 7)}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("status", [429, 503])
@pytest.mark.parametrize("dialect", ["chat", "messages"])
async def test_retry_after_reaches_the_client_in_plain_seconds(
    form: str, status: int, dialect: str
) -> None:
    """ERR-05: seconds, a date, or retry-after-ms: a plain Retry-After of the same meaning."""
    from email.utils import formatdate

    text = {"seconds": "7", "a date": formatdate(time.time() + 7, usegmt=True)}.get(form)
    extra = [("retry-after-ms", "7000")] if text is None else []
    said = error(status, retry_after=text, headers=extra)
    engine = FakeEngine("a", otherwise=said)

    async with gateway(Node({"chat": engine}, router={"num_retries": 0})) as g:
        got = await g.client.ask("chat", dialect=dialect)

    assert got.status == status
    assert 6 <= int(got.headers["retry-after"]) <= 8


@pytest.mark.parametrize("dialect", ["chat", "completions", "messages", "responses"])
async def test_an_overload_inside_a_200_is_an_error_status_when_nobody_else_serves(
    dialect: str,
) -> None:
    """ERR-01, engines.md 3: never a 200 with no content; the status comes before any event."""
    inner = {"message": "The engine is busy", "type": "Service Unavailable", "code": 503}
    first = {
        "chat": event({"error": inner}),
        "completions": event({"error": inner}),
        "messages": event({"type": "error", "error": inner}, "error"),
        "responses": event(
            {"type": "response.failed", "response": {"status": "failed", "error": inner}},
            "response.failed",
        ),
    }[dialect]
    engine = FakeEngine("a", otherwise=stream([first, DONE]))

    async with gateway(Node({"chat": engine}, router={"num_retries": 0})) as g:
        got = await g.client.ask("chat", dialect=dialect, stream=True)

    assert got.status in (502, 503)
    assert "The engine is busy" in got.json["error"]["message"]


async def test_an_empty_200_is_a_failure() -> None:
    """ERR-01, SWP-11: no bytes, or a page of HTML, is no answer."""
    a = FakeEngine("a", script=[reply(b""), reply("<html>hi</html>", content_type="text/html")])
    b = FakeEngine("b")
    node = Node({"chat": [member(a, order=1), member(b, order=2)]})

    async with gateway(node) as g:
        empty = await g.client.ask("chat")
        page = await g.client.ask("chat")

    assert (empty.deployment, page.deployment) == ("b", "b")
