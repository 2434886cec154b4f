"""GET /v1/models: what a key may use, as the clients of two dialects read it."""

from __future__ import annotations

import httpx2
import pytest
from anthropic import AsyncAnthropic
from openai import AsyncOpenAI, NotFoundError

from gateway.api.app import build
from tests.api.gateway import CHAT_KEY, HOSTS, JOBS_KEY, MASTER, FakeGateway, ask

EVERYTHING = [
    "primary-chat", "lab/aux-35b", "background-llm", "emb-query", "fast-chat", "task/title",
]  # fmt: skip


async def listed(gateway: FakeGateway, key: str) -> list[str]:
    reply = await ask(gateway, "/v1/models", key=key)
    return [row["id"] for row in reply.json()["data"]]


async def test_a_key_sees_the_groups_aliases_and_tasks_that_it_may_use(
    gateway: FakeGateway,
) -> None:
    assert await listed(gateway, MASTER) == EVERYTHING
    assert await listed(gateway, CHAT_KEY) == ["primary-chat"]
    assert await listed(gateway, JOBS_KEY) == EVERYTHING[1:]


async def test_a_row_tells_window_tier_and_mode(gateway: FakeGateway) -> None:
    reply = await ask(gateway, "/v1/models/primary-chat", key=CHAT_KEY)

    assert reply.json() == {
        "id": "primary-chat",
        "object": "model",
        "created": 1_790_000_000,
        "owned_by": "signalbox",
        "tier": "interactive",
        "mode": "chat",
        "max_input_tokens": 131_072,
        "max_model_len": 131_072,
    }


async def test_a_group_is_as_wide_as_its_widest_member(gateway: FakeGateway) -> None:
    for name in ("lab/aux-35b", "fast-chat", "task/title"):
        row = (await ask(gateway, f"/v1/models/{name}", key=JOBS_KEY)).json()

        assert row["max_input_tokens"] == 262_144
        assert row["tier"] == "auxiliary"


async def test_a_window_that_nobody_stated_is_left_out(gateway: FakeGateway) -> None:
    row = (await ask(gateway, "/v1/models/background-llm", key=JOBS_KEY)).json()

    assert "max_input_tokens" not in row
    assert (await ask(gateway, "/models/emb-query", key=JOBS_KEY)).json()["mode"] == "embedding"


@pytest.mark.parametrize(
    ("name", "key", "status"),
    [
        ("primary-chat", CHAT_KEY, 200),
        ("old-name", CHAT_KEY, 200),  # hidden: served, not listed
        ("lab/aux-35b", JOBS_KEY, 200),
        ("fast-chat", JOBS_KEY, 200),
        ("task/title", JOBS_KEY, 200),
        ("lab/aux-35b", CHAT_KEY, 404),
        ("task/title", CHAT_KEY, 404),
        ("burst-nemotron", MASTER, 404),
        ("primary-cha", CHAT_KEY, 404),
        ("", CHAT_KEY, 404),
        ("primary-chat/", CHAT_KEY, 404),
        ("Primary-Chat", CHAT_KEY, 404),
        ("primary-chat@gpu-1:8000/model", MASTER, 404),
        ("x" * 10_000, CHAT_KEY, 404),
    ],
)
async def test_one_model_is_read_with_an_ordinary_key(
    gateway: FakeGateway, name: str, key: str, status: int
) -> None:
    for prefix in ("/v1/models/", "/models/"):
        reply = await ask(gateway, prefix + name, key=key)

        assert reply.status == status
        assert len(reply.body) < 500
        if name != "primary-chat@gpu-1:8000/model":
            assert not any(host in reply.body.decode() for host in HOSTS)


async def test_an_unknown_name_is_answered_with_near_ones_that_the_key_may_use(
    gateway: FakeGateway,
) -> None:
    near = await ask(gateway, "/v1/models/primary-chatt", key=CHAT_KEY)
    closed = await ask(gateway, "/v1/models/primary-chatt", key=JOBS_KEY)

    assert near.json()["error"]["code"] == "model_not_found"
    assert "near names: primary-chat" in near.json()["error"]["message"]
    assert "near names: primary-chat" not in closed.json()["error"]["message"]


async def test_the_openai_client_lists_and_reads_models(gateway: FakeGateway) -> None:
    transport = httpx2.ASGITransport(build(gateway))
    async with httpx2.AsyncClient(transport=transport) as http:
        client = AsyncOpenAI(base_url="http://gateway/v1", api_key=JOBS_KEY, http_client=http)

        names = [model.id async for model in client.models.list()]
        one = await client.models.retrieve("lab/aux-35b")
        with pytest.raises(NotFoundError, match="no model 'primary-chat' for this key"):
            await client.models.retrieve("primary-chat")

    assert names == EVERYTHING[1:]
    assert one.owned_by == "signalbox"


async def test_the_anthropic_client_lists_and_reads_models(gateway: FakeGateway) -> None:
    transport = httpx2.ASGITransport(build(gateway))
    async with httpx2.AsyncClient(transport=transport) as http:
        client = AsyncAnthropic(base_url="http://gateway", api_key=JOBS_KEY, http_client=http)

        names = [model.id async for model in client.models.list()]
        one = await client.models.retrieve("task/title")

    assert names == EVERYTHING[1:]
    assert (one.id, one.type, one.created_at.year) == ("task/title", "model", 2026)
