"""Records and logs for the tests of gateway/records."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from gateway.config.config import Activity
from gateway.records.record import Attempt, Record

# A moment within a minute, an hour and a day: tests move away from it in either direction.
NOON = datetime(2026, 9, 30, 12, 0, 0, tzinfo=UTC).timestamp()


def at(seconds: float) -> str:
    """Seconds since 1970 as a record's `at`."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")[:-6] + "Z"


def record(number: int = 0, *, arrived: float = NOON, **settings: Any) -> Record:
    """A record of a request that went well, with a running number as its id."""
    plain: dict[str, Any] = {
        "id": f"{number:016x}",
        "at": at(arrived),
        "client": "open-webui",
        "client_ip": "127.0.0.1",
        "app": "pytest",
        "dialect": "chat",
        "requested_model": "primary-chat",
        "task": None,
        "tier": "interactive",
        "group": "primary-chat",
        "deployment": "primary-chat@gpu-1:8000/glm",
        "upstream": "gpu-1:8000",
        "attempts": [Attempt(deployment="primary-chat@gpu-1:8000/glm", outcome="ok", ms=900.0)],
        "stream": True,
        "status": 200,
        "outcome": "ok",
        "queue_ms": 0.1,
        "ttft_ms": 120.0,
        "duration_ms": 900.0,
        "prompt_tokens": 100,
        "cached_tokens": 40,
        "completion_tokens": 30,
        "reasoning_tokens": 10,
        "tok_s": 38.5,
        "estimated": False,
        "config": "abcdef012345",
    }
    return Record(**(plain | settings))


def line(number: int = 0, **settings: Any) -> bytes:
    """A record as it stands in the log."""
    return msgspec.json.encode(record(number, **settings)) + b"\n"


def numbers(records: Any) -> list[int]:
    """The running numbers of records."""
    return [int(r.id, 16) for r in records]


def log_at(folder: Path, **settings: Any) -> Activity:
    """An activity log in a folder, whose records never expire unless the test says so."""
    return Activity(
        path=str(folder / "run" / "activity.jsonl"),
        max_bytes=settings.pop("max_bytes", 1_000_000),
        max_age_days=settings.pop("max_age_days", 100_000.0),
    )
