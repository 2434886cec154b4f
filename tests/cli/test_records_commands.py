"""`gateway usage` and `gateway activity`, from files as the gateway leaves them."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
import pytest

from gateway.config.config import Activity
from gateway.records.activity import ActivityLog
from gateway.records.record import Attempt, Record
from gateway.records.usage import Usage
from tests.cli.conftest import Gateway


def record(n: int, minutes_ago: float, **settings: object) -> Record:
    """A chat request that went well, unless `settings` say else."""
    at = datetime.now(UTC) - timedelta(minutes=minutes_ago)
    plain = Record(
        id=f"r{n}",
        at=at.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        client="web",
        client_ip="127.0.0.1",
        app="test",
        dialect="chat",
        requested_model="primary-chat",
        task=None,
        tier="interactive",
        group="primary-chat",
        deployment="primary-chat@gpu-1:8000/glm",
        upstream="gpu-1:8000",
        attempts=[Attempt(deployment="primary-chat@gpu-1:8000/glm", outcome="ok", ms=40.0)],
        stream=True,
        status=200,
        outcome="ok",
        queue_ms=0.0,
        ttft_ms=120.0,
        duration_ms=900.0,
        prompt_tokens=1000,
        cached_tokens=600,
        completion_tokens=50,
        reasoning_tokens=None,
        tok_s=64.5,
        estimated=False,
        config="abc",
    )
    return msgspec.structs.replace(plain, **settings)


@pytest.fixture
def log(node: Path) -> list[Record]:
    """Three requests: long ago, lately by a task that failed, and just now."""
    made = [
        record(1, 300.0),
        record(
            2,
            10.0,
            client="jobs",
            requested_model=None,
            task="title",
            tier="auxiliary",
            group="aux-35b",
            deployment="aux-35b@gpu-2:8000/qwen",
            status=503,
            outcome="failed",
            error="no_deployment_available",
            completion_tokens=None,
            tok_s=None,
            ttft_ms=None,
        ),
        record(3, 1.0, estimated=True),
    ]
    writer = ActivityLog(Activity(path=str(node / "run" / "activity.jsonl")))
    usage = Usage(node / "run" / "activity.jsonl", flush=writer.flush)
    writer.start()
    usage.start()
    for one in made:
        writer.write(one)
        usage.add(one)
    usage.close()
    writer.close()
    return made


@pytest.mark.usefixtures("log")
def test_activity_shows_the_last_requests_and_sums_without_any_variable_set(
    gateway: Gateway,
) -> None:
    ran = gateway("activity")

    assert (ran.code, ran.err) == (0, "")
    lines = ran.out.splitlines()
    assert "task/title" in lines[1]
    assert "failed: no_deployment_available" in lines[1]
    assert "~1000+50" in lines[2]
    assert any(line.split()[:3] == ["tier", "burst", "0"] for line in lines)
    assert any(line.split()[:3] == ["all", "-", "2"] for line in lines)


@pytest.mark.usefixtures("log")
def test_the_window_and_the_limit_choose_what_is_shown(gateway: Gateway) -> None:
    day = json.loads(gateway("activity", "--window", "24h", "--json").out)
    one = json.loads(gateway("activity", "--limit", "1", "--json").out)

    assert [r["id"] for r in day["recent"]] == ["r1", "r2", "r3"]
    assert day["total"]["requests"] == 3
    assert [r["id"] for r in one["recent"]] == ["r3"]
    assert one["total"]["requests"] == 2


@pytest.mark.usefixtures("log")
def test_usage_is_by_day_and_by_model_or_of_a_window(gateway: Gateway) -> None:
    ever = gateway("usage")
    data = json.loads(gateway("usage", "--json").out)
    hour = json.loads(gateway("usage", "--window", "1h", "--json").out)

    assert ever.code == 0
    assert ever.out.startswith("since 2")
    assert data["lifetime"]["models"]["primary-chat"]["prompt_tokens"] == 2000
    assert hour["models"]["primary-chat"]["prompt_tokens"] == 1000


def test_without_a_log_there_is_nothing_and_that_is_no_problem(gateway: Gateway) -> None:
    usage, activity = gateway("usage"), gateway("activity")

    assert (usage.code, activity.code) == (0, 0)
    assert "nothing was counted yet" in usage.out
    assert "no request in the last 1h" in activity.out


def test_a_damaged_usage_file_is_one_line(gateway: Gateway, node: Path) -> None:
    (node / "run").mkdir()
    (node / "run" / "usage.json").write_text("{")

    ran = gateway("usage")

    assert ran.code == 1
    assert "usage.json is damaged" in ran.err
    assert ran.err.count("\n") == 1
