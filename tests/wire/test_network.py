"""The network below: stale connections, hanging engines, silent prefills, foreign routes."""

from __future__ import annotations

import asyncio
import time

import pytest

from tests.client import PATHS, question
from tests.engine import FakeEngine
from tests.engine_answers import SILENT, Pause
from tests.engine_says import Say
from tests.harness import gateway
from tests.node import Node, member


async def test_a_connection_that_the_engine_closed_is_no_error() -> None:
    """NET-01: 200 rounds around the engine's idle limit; nothing is executed twice."""
    engine = FakeEngine("e", idle_close_s=0.02)
    rng = [0.0, 0.015, 0.019, 0.02, 0.021, 0.03]

    async with gateway(Node({"chat": engine}, router={"num_retries": 0})) as g:
        for n in range(200):
            got = await g.client.ask("chat")
            assert got.status == 200
            assert got.attempts == 1
            await asyncio.sleep(rng[n % len(rng)])
        ids = [r.id for r in engine.requests]

    assert len(ids) == len(set(ids)) == 200


async def test_connections_are_kept_and_used_again() -> None:
    engine = FakeEngine("e")

    async with gateway(Node({"chat": engine})) as g:
        for n in range(20):
            await g.client.ask("chat", stream=n % 2 == 0)

    assert len(engine.connections) == 1


async def test_one_hanging_engine_does_not_slow_the_others() -> None:
    """NET-02: 200 requests hang at one engine; another's latency stays."""
    hanging, well = FakeEngine("hanging", otherwise=SILENT), FakeEngine("well")
    node = Node({"slow": hanging, "fast": well})

    async with gateway(node) as g:
        stuck = [asyncio.create_task(g.client.ask("slow", within_s=30)) for _ in range(200)]
        await hanging.arrived(200)
        times = []
        for _ in range(20):
            began = time.perf_counter()
            assert (await g.client.ask("fast")).status == 200
            times.append(time.perf_counter() - began)
        for task in stuck:
            task.cancel()
        await asyncio.gather(*stuck, return_exceptions=True)
        await g.idle()

    assert sorted(times)[10] < 0.05


@pytest.mark.parametrize("limit", [None, 0])
@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
async def test_no_timeout_means_no_limit(limit: int | None, streamed: bool) -> None:
    """NET-04, NET-06: absent, null and 0 are no limit; a long prefill is waited for."""
    engine = FakeEngine("e", otherwise=Say(before=(Pause(0.8),)))
    node = Node({"chat": member(engine, timeout=limit)}, settings={"stream_idle_timeout_s": 0.3})

    async with gateway(node) as g:
        got = await g.client.ask("chat", stream=streamed)

    assert got.status == 200


@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("dialect", ["chat", "messages", "embeddings"])
async def test_a_timeout_with_nobody_else_is_504(streamed: bool, dialect: str) -> None:
    """EMB-07: 504 in the path's dialect; never sent again to the same engine."""
    engine = FakeEngine("e", otherwise=SILENT)
    node = Node({"chat": member(engine, timeout=0.2)}, router={"num_retries": 3})

    async with gateway(node) as g:
        got = await g.client.ask("chat", dialect=dialect, stream=streamed)
        record = await g.record()
        await engine.requests[0].peer_close()

    assert got.status == 504
    assert len(engine.requests) == 1
    assert (got.json.get("type") == "error") == (dialect == "messages")
    assert record["outcome"] == "failed"


@pytest.mark.parametrize(
    "path", ["/api/tags", "/props", "/version", "/api/show", "/v1/props", "/api/v1/models"]
)
@pytest.mark.parametrize("keyed", [True, False])
async def test_foreign_routes_get_a_quick_json_404_or_401(path: str, keyed: bool) -> None:
    """NET-07: no engine is asked; the chat that follows works."""
    engine = FakeEngine("e")

    async with gateway(Node({"chat": engine})) as g:
        began = time.perf_counter()
        got = await g.client.get(path, **({} if keyed else {"key": None}))
        took = time.perf_counter() - began
        chat = await g.client.ask("chat")

    assert got.status == (404 if keyed else 401)
    assert got.json["error"]["message"]
    assert took < 0.05
    assert chat.status == 200
    assert engine.probes == []


async def test_proxy_variables_are_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = FakeEngine("e")
    async with FakeEngine("trap") as trap:
        for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
            monkeypatch.setenv(name, trap.url)

        async with gateway(Node({"chat": engine})) as g:
            got = await g.client.ask("chat")

    assert got.status == 200
    assert trap.connections == []


async def test_an_engine_on_ipv6_alone_is_reached() -> None:
    engine = FakeEngine("e", host="::1")

    async with gateway(Node({"chat": engine})) as g:
        got = await g.client.ask("chat")

    assert got.status == 200


@pytest.mark.parametrize("tail", ["", "/"])
async def test_an_api_base_has_one_path_upstream(tail: str) -> None:
    """CFG-07 (b): a trailing slash changes nothing."""
    engine = FakeEngine("e")
    async with engine:
        base = engine.url + tail
        await engine.stop()
        async with gateway(Node({"chat": member(engine, api_base=base)})) as g:
            await g.client.ask("chat")

    assert engine.requests[0].path == "/v1/chat/completions"


async def test_no_health_route_asks_an_engine() -> None:
    """SWP-16, EMB-08: health, models and metrics start nothing anywhere, of whatever mode."""
    engine = FakeEngine("e")

    async with gateway(Node({"chat": engine})) as g:
        for path in ("/health", "/health/live", "/health/ready", "/v1/models", "/metrics"):
            assert (await g.operator.get(path)).status == 200

    assert engine.requests == []
    assert engine.probes == []


async def test_two_hundred_clients_at_once_are_all_served() -> None:
    engine = FakeEngine("e")

    async with gateway(Node({"chat": engine})) as g:
        replies = await asyncio.gather(
            *(g.client.ask("chat", stream=n % 2 == 0) for n in range(200))
        )

    assert {r.status for r in replies} == {200}
    assert all(r.whole for r in replies)


async def test_a_client_may_keep_its_connection() -> None:
    """Pipelined and kept-alive requests of one client each get their own answer."""
    engine = FakeEngine("e")

    async with gateway(Node({"chat": engine})) as g:
        headers = {"Connection": "keep-alive"}
        async with g.client.sending(PATHS["chat"], question("chat"), headers=headers) as opened:
            for n in range(3):
                await opened.head()
                await opened.rest()
                assert opened.status == 200
                if n < 2:
                    opened.send(g.client.request(PATHS["chat"], question("chat"), headers))

    assert len(engine.requests) == 3
