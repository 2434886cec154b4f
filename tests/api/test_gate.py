"""Nobody without a key sees anything but /health/live, however a path is spelled."""

from __future__ import annotations

import time
from itertools import product

import pytest

from gateway.api.app import OPEN_ROUTES, PAGES
from tests import markers
from tests.api.gateway import ADMIN_KEY, CHAT_KEY, HOSTS, MASTER, FakeGateway, ask

# Every route that is registered, with its parameter filled in.
ROUTES = [path.replace("{name:path}", "primary-chat") for path in PAGES]
ADMIN_ROUTES = ["/metrics", "/api/activity", "/api/usage", "/api/routes", "/api/config"]
SPELLINGS = [
    "{}", "{}/", "/{}", "{}//", "/v1{}", "{}?api_key=KEY&key=KEY", "{}%2f", "{}/.", "/./{}",
    "{}\x00", "{};a", "{} ",
]  # fmt: skip
METHODS = ["GET", "HEAD", "OPTIONS", "POST", "PUT", "TRACE", "get"]
INFERENCE = ["/v1/chat/completions", "/v1/messages", "/chat/completions", "/v1/embeddings"]


def test_the_open_routes_are_liveness_alone() -> None:
    assert OPEN_ROUTES == ("/health/live",)
    assert "/health/live" in ROUTES


@pytest.mark.parametrize("key", [None, "wrong", "", "Bearer", f"{MASTER}x", MASTER.upper()])
@pytest.mark.parametrize("path", [r for r in ROUTES if r not in OPEN_ROUTES] + INFERENCE)
async def test_no_route_answers_without_a_known_key(
    gateway: FakeGateway, path: str, key: str | None
) -> None:
    reply = await ask(gateway, path, key=key)

    assert reply.status == 401
    assert reply.headers["content-type"] == "application/json"


@pytest.mark.parametrize("route", ROUTES)
async def test_no_spelling_and_no_method_opens_a_route(gateway: FakeGateway, route: str) -> None:
    spelled = {s.format(r) for s in SPELLINGS for r in (route, route.upper(), route.title())}
    for path, method in product(spelled, METHODS):
        reply = await ask(gateway, path.replace("KEY", MASTER), method=method)

        is_open = path.partition("?")[0] in OPEN_ROUTES and method in ("GET", "HEAD")
        assert reply.status == (200 if is_open else 401), (method, path)
        assert not markers.seen(reply.body)
        assert not any(host in reply.body.decode() for host in HOSTS)


@pytest.mark.parametrize("spelling", [s for s in SPELLINGS[1:] if "?" not in s])
async def test_behind_the_gate_another_spelling_is_not_found(
    gateway: FakeGateway, spelling: str
) -> None:
    for route in ("/health", "/health/live", "/metrics", "/api/config"):
        assert (await ask(gateway, spelling.format(route), key=MASTER)).status in (404, 405)


async def test_live_says_nothing_but_that_it_lives(gateway: FakeGateway) -> None:
    reply = await ask(gateway, "/health/live")

    assert (reply.status, reply.json()) == (200, {"status": "live"})
    assert "x-gateway-config" not in reply.headers


@pytest.mark.parametrize("path", ADMIN_ROUTES)
async def test_reports_are_for_admins(gateway: FakeGateway, path: str) -> None:
    refused = await ask(gateway, path, key=CHAT_KEY)

    assert refused.status == 403
    assert refused.json()["error"]["code"] == "admin_only"
    for key in (MASTER, ADMIN_KEY):
        assert (await ask(gateway, path, key=key)).status == 200


@pytest.mark.parametrize(
    "path",
    ["/api/tags", "/props", "/version", "/api/show", "/v1/props", "/api/v1/models", "/", "/docs",
     "/openapi.json", "/model/info", "/v1/models/x/y/z"],
)  # fmt: skip
async def test_foreign_probes_get_a_quick_404_as_json(gateway: FakeGateway, path: str) -> None:
    started = time.process_time()
    reply = await ask(gateway, path, key=CHAT_KEY)

    assert time.process_time() - started < 0.05
    assert reply.status == 404
    assert reply.json()["error"]["type"] == "not_found_error"


async def test_a_wrong_method_says_which_is_right(gateway: FakeGateway) -> None:
    for path, method, right in [
        ("/v1/chat/completions", "GET", "POST"),
        ("/completions", "DELETE", "POST"),
        ("/v1/models", "POST", "GET, HEAD"),
        ("/metrics", "OPTIONS", "GET, HEAD"),
    ]:
        reply = await ask(gateway, path, key=MASTER, method=method)

        assert reply.status == 405
        assert set(reply.headers["allow"].split(", ")) == set(right.split(", "))
        assert reply.json()["error"]["code"] == "method_not_allowed"


async def test_errors_speak_the_dialect_of_the_path(gateway: FakeGateway) -> None:
    anthropic = [
        await ask(gateway, "/v1/messages"),
        await ask(gateway, "/v1/messages", key=MASTER),
        await ask(gateway, "/v1/messages/batches", key=MASTER),
        await ask(gateway, "/v1/models/none", key=MASTER, anthropic_version="2023-06-01"),
        await ask(gateway, "/v1/models", anthropic_version="2023-06-01"),
    ]
    openai = [await ask(gateway, "/v1/models"), await ask(gateway, "/v1/models/no", key=MASTER)]

    assert [reply.status for reply in anthropic] == [401, 405, 404, 404, 401]
    assert all(reply.json()["type"] == "error" for reply in anthropic)
    assert all(set(reply.json()) == {"error"} for reply in openai)


async def test_refused_keys_are_counted(gateway: FakeGateway) -> None:
    await ask(gateway, "/v1/models")
    await ask(gateway, "/v1/models", key="wrong")

    page = (await ask(gateway, "/metrics", key=MASTER)).body.decode()
    assert "gateway_keys_refused_total 2.0" in page


async def test_two_different_keys_are_refused(gateway: FakeGateway) -> None:
    reply = await ask(gateway, "/v1/models", key=MASTER, x_api_key=CHAT_KEY)

    assert reply.status == 400


async def test_each_answer_names_the_revision(gateway: FakeGateway) -> None:
    for path in ("/v1/models", "/health", "/nowhere", "/metrics", "/api/usage"):
        reply = await ask(gateway, path, key=MASTER)

        assert reply.headers["x-gateway-config"] == "abababababab@1234567-dirty"
