"""Who may call what; and no key and no prompt anywhere that it does not belong."""

from __future__ import annotations

import pytest

from tests import markers
from tests.client import PATHS
from tests.engine import FakeEngine
from tests.engine_answers import error
from tests.harness import gateway
from tests.node import MASTER_KEY, TESTER_KEY, Node, member

SIDE_ROUTES = [
    "/v1/models",
    "/v1/models/chat",
    "/models",
    "/metrics",
    "/api/activity",
    "/api/usage",
    "/api/routes",
    "/api/config",
    "/health",
    "/health/ready",
    "/docs",
    "/openapi.json",
    "/redoc",
    "/",
    "/v1/nothing",
    "/model/info",
    "/v1/model/info",
]


@pytest.mark.parametrize("dialect", list(PATHS))
@pytest.mark.parametrize("key", [None, "sk-invented", "", TESTER_KEY + "x", TESTER_KEY[:-1]])
async def test_no_key_or_a_wrong_one_is_401_on_every_route(dialect: str, key: str | None) -> None:
    """CFG-01, SEC-03: an invented key never gets 200."""
    engine = FakeEngine("e")
    headers = {"Authorization": "Bearer "} if key == "" else {}

    async with gateway(Node({"chat": engine})) as g:
        got = await g.client.ask("chat", dialect=dialect, key=key or None, headers=headers)

    assert got.status == 401
    assert (got.json.get("type") == "error") == (dialect in ("messages", "count_tokens"))
    assert engine.requests == []


@pytest.mark.parametrize("path", SIDE_ROUTES)
@pytest.mark.parametrize("method", ["GET", "HEAD", "OPTIONS", "POST"])
async def test_side_routes_are_closed(path: str, method: str) -> None:
    """SEC-03: without a key nothing but liveness answers, in any spelling of the path."""
    engine = FakeEngine("e")
    spellings = [path, path + "/", "/" + path, path.upper(), path + "?x=1", path + "%2f"]

    async with gateway(Node({"chat": engine})) as g:
        for spelling in spellings:
            async with g.client.sending(spelling, None, method=method, key=None) as opened:
                await opened.head()
                assert opened.status in (401, 404, 405), f"{method} {spelling}: {opened.status}"
                assert "access-control-allow-origin" not in opened.reply.headers

    assert engine.requests == []


async def test_liveness_is_open() -> None:
    async with gateway(Node({"chat": FakeEngine("e")})) as g:
        got = await g.client.get("/health/live", key=None)

    assert got.status == 200


@pytest.mark.parametrize(
    "path", ["/metrics", "/api/activity", "/api/usage", "/api/routes", "/api/config"]
)
async def test_operators_pages_need_the_masters_key(path: str) -> None:
    async with gateway(Node({"chat": FakeEngine("e")})) as g:
        ordinary = await g.client.get(path)
        master = await g.operator.get(path)

    assert ordinary.status == 403
    assert master.status == 200
    assert not markers.seen(master.body)


async def test_a_key_may_be_an_x_api_key() -> None:
    async with gateway(Node({"chat": FakeEngine("e")})) as g:
        same = {"x-api-key": TESTER_KEY}
        alone = await g.client.ask("chat", dialect="messages", key=None, headers=same)
        both = await g.client.ask("chat", headers=same)
        differ = await g.client.ask("chat", headers={"x-api-key": MASTER_KEY})

    assert (alone.status, both.status, differ.status) == (200, 200, 400)


async def test_a_key_opens_its_tiers_and_names_and_no_others() -> None:
    """Step 1: grants are for the name that the client sends; fallbacks are the file's."""
    engines = {n: FakeEngine(n) for n in ("fast", "slow", "spare")}
    engines["slow"].otherwise = error(500)
    node = Node(
        {"fast": engines["fast"], "slow": engines["slow"], "spare": engines["spare"]},
        tiers={"auxiliary": ["fast"], "background": ["slow"], "burst": ["spare"]},
        aliases={"quick": "fast"},
        pins={"title": "fast"},
        router={"fallbacks": [{"slow": ["spare"]}], "num_retries": 0},
        settings={
            "client_keys": [
                {
                    "name": "jobs",
                    "key": "os.environ/KEY_TESTER",
                    "tiers": ["background"],
                    "models": ["task/title"],
                },
            ]
        },
    )

    async with gateway(node) as g:
        statuses = {
            name: (await g.client.ask(name)).status
            for name in ("slow", "task/title", "fast", "quick", "spare")
        }
        listed = {m["id"] for m in (await g.client.get("/v1/models")).json["data"]}
        one = await g.client.get("/v1/models/slow")
        other = await g.client.get("/v1/models/fast")

    assert statuses["slow"] == 200
    assert statuses["task/title"] == 200
    assert {statuses[name] for name in ("fast", "quick", "spare")} <= {403, 404}
    assert listed == {"slow", "task/title"}
    assert (one.status, other.status) == (200, 404)


async def test_reading_models_needs_no_more_than_a_client_key() -> None:
    """SEC-05: known, unknown, alias and task names with a slash."""
    node = Node(
        {"chat": member(FakeEngine("e"), {"max_input_tokens": 4096})},
        tiers={"auxiliary": ["chat"]},
        aliases={"short": "chat"},
        pins={"title": "chat"},
    )

    async with gateway(node) as g:
        listed = (await g.client.get("/v1/models")).json["data"]
        statuses = [
            (await g.client.get(f"/v1/models/{name}")).status
            for name in ("chat", "short", "task/title", "task%2Ftitle", "nope", "a/b")
        ]

    assert {m["id"] for m in listed} == {"chat", "short", "task/title"}
    assert next(m for m in listed if m["id"] == "chat")["max_input_tokens"] == 4096
    assert next(m for m in listed if m["id"] == "chat")["max_model_len"] == 4096
    assert statuses == [200, 200, 200, 200, 404, 404]
    assert b"127.0.0.1" not in str(listed).encode()


@pytest.mark.parametrize("name", ["127.0.0.1", "localhost", "[::1]"])
async def test_without_keys_only_loopback_names_and_json_are_served(name: str) -> None:
    """Section 5, step 1: `--insecure`: a page in a browser cannot reach it."""
    engine = FakeEngine("e")
    node = Node({"chat": engine}, keys=False)

    async with gateway(node, insecure=True, leaks=True) as g:
        good = await g.client.ask("chat", key=None, headers={"Host": f"{name}:9000"})
        other = await g.client.ask("chat", key=None, headers={"Host": "evil.test"})
        plain = await g.client.ask("chat", key=None, headers={"Content-Type": "text/plain"})

    assert good.status == 200
    assert other.status >= 400
    assert plain.status >= 400
    assert len(engine.requests) == 1
