"""What health says, to whom."""

from __future__ import annotations

import pytest

from common.problems import Place, Problem
from gateway.api.view import Phase
from gateway.records.state import DeploymentState, NowState
from tests.api.gateway import CHAT_KEY, ENGINE_KEY, HOSTS, MASTER, FakeGateway, ask

PROBLEM = Problem(
    Place("config.yaml", 41, 5),
    "error",
    "unbounded-overflow",
    f"background-llm reaches gpu-1:8000 without a bound, with key {ENGINE_KEY}",
)


@pytest.mark.parametrize(
    ("phase", "status"), [("starting", 503), ("ready", 200), ("draining", 503)]
)
async def test_ready_only_while_new_requests_are_taken(
    gateway: FakeGateway, phase: Phase, status: int
) -> None:
    gateway.phase = phase

    reply = await ask(gateway, "/health/ready", key=CHAT_KEY)

    assert reply.status == status
    assert reply.json() == {
        "status": phase,
        "config": "ok",
        "revision": "abababababab@1234567-dirty",
    }


async def test_a_rejected_file_leaves_it_ready_and_is_said(gateway: FakeGateway) -> None:
    gateway.rejected = (PROBLEM,)

    plain = await ask(gateway, "/health/ready", key=CHAT_KEY)
    admin = await ask(gateway, "/health/ready", key=MASTER)

    assert plain.status == admin.status == 200
    assert plain.json()["config"] == "rejected"
    assert plain.json()["problems"] == [
        {"severity": "error", "code": "unbounded-overflow", "line": 41, "column": 5}
    ]
    assert "gpu-1:8000" in admin.json()["problems"][0]["message"]
    assert ENGINE_KEY not in admin.body.decode()


async def test_health_counts_by_group_and_names_no_address(gateway: FakeGateway) -> None:
    gateway.state = NowState(
        deployments=(
            DeploymentState(
                id="primary-chat@gpu-1:8000/model", group="primary-chat", tier="interactive",
                in_flight=2, rests_s=3.0,
            ),
        ),
        waiting=(("primary-chat", 5),),
    )  # fmt: skip

    reply = await ask(gateway, "/health", key=CHAT_KEY)

    assert reply.json()["groups"] == {
        "primary-chat": {
            "tier": "interactive", "deployments": 1, "resting": 1, "in_flight": 2, "waiting": 5,
        }
    }  # fmt: skip
    assert not any(host in reply.body.decode() for host in HOSTS)


async def test_health_shows_an_admin_every_group(gateway: FakeGateway) -> None:
    reply = await ask(gateway, "/health", key=MASTER)

    assert set(reply.json()["groups"]) == set(gateway.config.tiers)
