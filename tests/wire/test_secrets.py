"""Nothing gets out: no key, no prompt, no header, and no request to a host of the body."""

from __future__ import annotations

from typing import Any

import pytest

from tests import markers
from tests.client import PATHS, question
from tests.engine import FakeEngine
from tests.engine_answers import RESET, error
from tests.harness import gateway
from tests.node import ENGINE_KEY, TESTER_KEY, Node, member


@pytest.mark.parametrize("name", ["key", "api_key", "token"])
async def test_a_key_in_the_query_is_no_key_and_is_shown_nowhere(
    name: str, capfd: pytest.CaptureFixture[str]
) -> None:
    """LOG-03: plain and percent-encoded; no error body and no log line quotes it."""
    encoded = "".join(f"%{ord(c):02x}" for c in TESTER_KEY)

    async with gateway(Node({"chat": FakeEngine("e")})) as g:
        for text in (TESTER_KEY, encoded):
            got = await g.client.post(
                f"/v1/chat/completions?{name}={text}", question("chat"), key=None
            )
            assert got.status == 401
            assert TESTER_KEY.encode() not in got.body

    out, err = capfd.readouterr()
    assert TESTER_KEY not in out + err
    assert encoded not in out + err


REFUSED: dict[str, Any] = {
    "api_base": "TRAP",
    "base_url": "TRAP",
    "api_key": "sk-x",
    "fallbacks": ["x"],
    "custom_llm_provider": "openai",
    "extra_headers": {"X": "y"},
    "mock_response": "hi",
    "mock_testing_fallbacks": True,
    "model_list": [],
    "litellm_params": {"api_base": "TRAP"},
    "context_window_fallbacks": [],
    "api_version": "x",
}


@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.parametrize("dialect", ["chat", "messages", "responses", "embeddings"])
async def test_a_body_cannot_move_a_request(name: str, dialect: str) -> None:
    """SEC-01: 400 in the path's dialect; the trap sees nothing, nor does the engine."""
    async with FakeEngine("trap") as trap:
        value = trap.url if REFUSED[name] == "TRAP" else REFUSED[name]
        engine = FakeEngine("e")
        async with gateway(Node({"chat": engine})) as g:
            body = question("chat", dialect) | {name: value}
            got = await g.client.post(PATHS[dialect], body)
            good = await g.client.ask("chat", dialect=dialect)

    assert got.status == 400
    assert got.error is not None
    assert name in got.error["message"]
    assert (got.json.get("type") == "error") == (dialect == "messages")
    assert trap.connections == []
    assert (good.status, len(engine.requests)) == (200, 1)


async def test_headers_go_up_and_down_by_an_allow_list() -> None:
    """Section 5, step 5: what is not on the list stays, the gateway's own key goes up."""
    engine = FakeEngine("e")
    sent = {
        "Cookie": "a=b",
        "X-Forwarded-For": "1.2.3.4",
        "X-Secret": "s",
        "Accept-Encoding": "gzip",
        "traceparent": "00-1-2-01",
        "tracestate": "a=1",
        "anthropic-version": "2023-06-01",
        "anthropic-beta": "x",
        "Accept": "application/json",
        "X-Api-Base": "http://x.test",
    }
    engine.otherwise = error(
        400, headers=[("set-cookie", "x=1"), ("server", "uv"), ("x-inner", "1")]
    )

    async with gateway(Node({"chat": engine})) as g:
        got = await g.client.ask("chat", dialect="messages", headers=sent)

    up = {name for name, _ in engine.requests[0].headers}
    assert up <= {
        "host",
        "content-type",
        "content-length",
        "accept",
        "accept-encoding",
        "authorization",
        "x-api-key",
        "x-request-id",
        "traceparent",
        "tracestate",
        "anthropic-version",
        "anthropic-beta",
        "connection",
        "user-agent",
    }
    assert {"traceparent", "tracestate", "anthropic-version", "anthropic-beta"} <= up
    assert engine.requests[0].header("accept-encoding") == "identity"
    assert ENGINE_KEY in str(engine.requests[0].headers)
    assert TESTER_KEY not in str(engine.requests[0].headers)
    assert not {"set-cookie", "x-inner"} & set(got.headers)


async def test_no_marker_shows_up_in_any_output_of_any_fate(
    capfd: pytest.CaptureFixture[str],
) -> None:
    """LOG-01, promise 10: success, 401, 500, reset, timeout, stream, a broken body."""
    a = FakeEngine("a", script=[error(500), RESET, error(401), error(400, "no")])
    node = Node({"chat": member(a, timeout=0.3)}, router={"num_retries": 0, "allowed_fails": 99})

    async with gateway(node) as g:
        for _ in range(5):
            await g.client.ask("chat", stream=True)
        await g.client.post(PATHS["chat"], b'{"model": "chat", ' + markers.prompt().encode())
        await g.client.ask("chat", key=markers.key("wrong"))
        pages = [
            (await g.operator.get(path)).body
            for path in (
                "/metrics",
                "/api/activity",
                "/api/usage",
                "/api/routes",
                "/api/config",
                "/health",
                "/health/ready",
            )
        ]

    out, err = capfd.readouterr()
    assert not markers.seen(out + err)
    assert not any(markers.seen(page) for page in pages)


async def test_images_do_not_fill_the_log(capfd: pytest.CaptureFixture[str]) -> None:
    """LOG-06: five requests with 2 MB of base64 each, all failing: kilobytes of log."""
    engine = FakeEngine("e", otherwise=error(500, "x" * 100_000))
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "QUJD" * 500_000}}
    messages = [{"role": "user", "content": [image]}]

    async with gateway(Node({"chat": engine}, router={"num_retries": 0, "allowed_fails": 99})) as g:
        for _ in range(5):
            assert (await g.client.ask("chat", messages=messages)).status == 500
        await g.records(5)
        written = g.activity.stat().st_size

    out, err = capfd.readouterr()
    assert len(out) + len(err) < 20_000
    assert written < 20_000
