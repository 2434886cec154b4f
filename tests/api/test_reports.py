"""The pages for admins: complete, and without a key in them."""

from __future__ import annotations

import time

import pytest

from common.problems import Place, Problem
from gateway.api.secrets import is_secret_name, masked
from gateway.records.state import DeploymentState, NowState
from tests import markers
from tests.api.gateway import MASTER, FakeGateway, ask
from tests.records.build import record

PATHS = ["/metrics", "/api/activity", "/api/usage", "/api/routes", "/api/config", "/health"]


@pytest.mark.parametrize("path", PATHS)
async def test_no_page_holds_a_key(gateway: FakeGateway, path: str) -> None:
    gateway.rejected = (Problem(Place("f", 1, 1), "error", "x", f"key {MASTER} twice"),)

    reply = await ask(gateway, path, key=MASTER)

    assert reply.status == 200
    assert not markers.seen(reply.body)


async def test_activity_shows_the_window_and_the_last_records(gateway: FakeGateway) -> None:
    gateway.usage.add(record(1, arrived=time.time()))
    gateway.records_lost = 3

    page = (await ask(gateway, "/api/activity?window=24h", key=MASTER)).json()

    assert page["window"] == "24h"
    assert page["total"]["requests"] == page["models"]["primary-chat"]["requests"] == 1
    assert page["tiers"]["burst"]["requests"] == 0
    assert [r["id"] for r in page["recent"]] == [record(1).id]
    assert page["records_lost"] == 3


@pytest.mark.parametrize("window", ["", "2h", "1H", "24h "])
async def test_a_window_that_is_not_kept_is_refused(gateway: FakeGateway, window: str) -> None:
    reply = await ask(gateway, f"/api/activity?window={window.replace(' ', '%20')}", key=MASTER)

    assert reply.status == 400
    assert "1h or 24h" in reply.json()["error"]["message"]


async def test_usage_shows_lifetime_and_days(gateway: FakeGateway) -> None:
    gateway.usage.add(record(1))

    page = (await ask(gateway, "/api/usage", key=MASTER)).json()

    assert page["since"] == record(1).at
    assert page["days"]["2026-09-30"]["clients"]["open-webui"]["prompt_tokens"] == 100


async def test_routes_show_who_reaches_what_and_how_it_is(gateway: FakeGateway) -> None:
    gone = DeploymentState(id="gone@gpu-9:1/x", group="gone", tier="auxiliary", in_flight=1)
    gateway.state = NowState(deployments=(*gateway.now().deployments, gone))

    page = (await ask(gateway, "/api/routes", key=MASTER)).json()

    burst = [r for r in page["reaches"] if r["group"] == "burst-nemotron" and r["depth"] == 1]
    assert {r["name"] for r in burst} == {"primary-chat", "old-name"}
    assert burst[0]["upstream"] == "gpu-1:8001"
    assert {"name": "task/title", "kind": "task"}.items() <= page["routes"][-1].items()
    assert page["deployments"][0]["upstream"] == "gpu-1:8000"
    assert page["deployments"][-1]["removed"] is True


async def test_config_shows_the_file_with_its_defaults(gateway: FakeGateway) -> None:
    page = (await ask(gateway, "/api/config", key=MASTER)).json()
    shown = page["config"]

    assert page["state"] == "ok"
    assert shown["deployments"][0]["api_base"] == "http://gpu-1:8000/v1"
    assert shown["deployments"][0]["api_key"] == "***"
    assert shown["deployments"][0]["fixed"] == {"extra_headers": "***", "max_tokens": 100}
    assert "litellm_params" not in shown["deployments"][0]
    assert [key["name"] for key in shown["client_keys"]] == ["open-webui", "jobs", "operator"]
    assert shown["client_keys"][0]["key"] == shown["master_key"] == "***"
    assert shown["drain_s"] == 30.0


@pytest.mark.parametrize(
    "name",
    ["api_key", "key", "Authorization", "X-Api-Key", "aws_secret_access_key", "headers",
     "extra_headers", "azure_ad_token", "password", "hf-token", "vertex_credentials"],
)  # fmt: skip
def test_names_of_secrets_are_known(name: str) -> None:
    assert is_secret_name(name)


@pytest.mark.parametrize(
    "name", ["client_keys", "max_input_tokens", "max_tokens", "token_ids", "keys", "monkey", "tpm"]
)
def test_names_of_numbers_and_lists_are_no_secrets(name: str) -> None:
    assert not is_secret_name(name)


def test_a_secret_is_taken_out_of_any_text() -> None:
    shown = masked({"a": ["x sk-123456 y"], "sk-123456": 1}, {"sk-123456"})

    assert shown == {"a": ["x *** y"], "***": 1}
