"""Usage: counters that outlive the log, and never count a record twice."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.records.counters import MAX_DAYS, MAX_NAMES
from gateway.records.lock import RecordsError
from gateway.records.usage import Usage, usage_path
from tests.clock import Clock
from tests.records.build import NOON, line, record

DAY = 86_400.0


@contextmanager
def counting(folder: Path, *, now: float = NOON, **options: Any) -> Iterator[Usage]:
    usage = Usage(folder / "activity.jsonl", clock=Clock(now), save_s=3600.0, **options)
    usage.start()
    try:
        yield usage
    finally:
        usage.close()


def total(usage: Usage) -> dict[str, int]:
    found: dict[str, int] = usage.lifetime()["lifetime"]["total"]
    return found


def test_tokens_are_counted_for_life_and_by_day_model_client_and_tier(tmp_path: Path) -> None:
    with counting(tmp_path) as usage:
        usage.add(record(1))
        usage.add(record(2, client="agent-jobs", group="aux-35b", tier="auxiliary"))
        usage.add(record(3, outcome="failed", arrived=NOON - DAY, cached_tokens=None))

        book = usage.lifetime()

    assert book["lifetime"]["total"] == {
        "requests": 3,
        "failed": 1,
        "cancelled": 0,
        "refused": 0,
        "prompt_tokens": 300,
        "cached_tokens": 80,
        "completion_tokens": 90,
        "reasoning_tokens": 30,
        "estimated_tokens": 0,
    }
    assert book["lifetime"]["models"]["aux-35b"]["requests"] == 1
    assert book["lifetime"]["clients"]["open-webui"]["completion_tokens"] == 60
    assert book["lifetime"]["tiers"]["auxiliary"]["prompt_tokens"] == 100
    assert list(book["days"]) == ["2026-09-29", "2026-09-30"]
    assert book["days"]["2026-09-29"]["total"]["requests"] == 1
    assert book["since"] == record(1).at


def test_no_burst_traffic_shows_as_zeros(tmp_path: Path) -> None:
    with counting(tmp_path) as usage:
        usage.add(record(1))

        assert usage.lifetime()["lifetime"]["tiers"]["burst"]["requests"] == 0
        assert usage.window("24h")["tiers"]["burst"]["requests"] == 0


def test_what_a_fallback_served_counts_under_the_tier_that_served_it(tmp_path: Path) -> None:
    tiers = {"burst-nemotron": "burst", "primary-chat": "interactive"}
    with counting(tmp_path, tier_of=tiers.get) as usage:
        usage.add(record(1, tier="interactive", group="burst-nemotron"))

        assert usage.window("1h")["tiers"]["burst"]["requests"] == 1
        assert usage.lifetime()["lifetime"]["tiers"]["interactive"]["requests"] == 0


def test_counters_are_read_again_after_a_restart(tmp_path: Path) -> None:
    with counting(tmp_path) as usage:
        usage.add(record(1))
        before = usage.lifetime()

    with counting(tmp_path) as usage:
        after = usage.lifetime()

    assert after == before | {"updated_at": after["updated_at"]}
    assert not (tmp_path / "usage.json.new").exists()


def test_without_a_file_the_counters_are_rebuilt_as_far_as_the_log_reaches(
    tmp_path: Path,
) -> None:
    log = [line(n, arrived=NOON + n) for n in range(5)]
    (tmp_path / "activity.jsonl").write_bytes(b"".join(log) + b'{"id":"torn')

    with counting(tmp_path, now=NOON + 60) as usage:
        assert total(usage)["requests"] == 5
        assert usage.lifetime()["since"] == record(0).at
        assert usage.window("1h")["total"]["requests"] == 5
        assert [r.id for r in usage.recent()] == [record(n).id for n in (4, 3, 2, 1, 0)]


@pytest.mark.parametrize(
    "damage",
    [b"", b"{", b"\0" * 100, b'{"version":1,"lifetime":3}', b'{"version":99}', b"\xff\xfe"],
)
def test_a_damaged_file_is_set_aside_said_so_and_rebuilt_from_the_log(
    tmp_path: Path, damage: bytes, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "activity.jsonl").write_bytes(line(1) + line(2))
    (tmp_path / "usage.json").write_bytes(damage)

    with counting(tmp_path) as usage:
        assert total(usage)["requests"] == 2

    aside = [p for p in tmp_path.iterdir() if p.name.startswith("usage.json.damaged-")]
    assert [p.read_bytes() for p in aside] == [damage]
    assert "usage_rebuilt" in capsys.readouterr().out
    assert json.loads((tmp_path / "usage.json").read_bytes())["version"] == 1


@settings(max_examples=40, deadline=None)
@given(
    counts=st.lists(st.integers(0, 12), min_size=1, max_size=6),
    saved=st.lists(st.booleans(), min_size=6, max_size=6),
    lost=st.sets(st.integers(0, 71)),
)
def test_whatever_was_saved_each_record_of_the_log_is_counted_once(
    counts: list[int],
    saved: list[bool],
    lost: set[int],
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """Lives of a gateway: some end with a save, some are killed; some records miss the log."""
    folder = tmp_path_factory.mktemp("lives")
    number = in_log = unlogged = 0
    for count, saves in zip(counts, saved, strict=False):
        usage = Usage(folder / "activity.jsonl", clock=Clock(NOON), save_s=3600.0)
        usage.start()
        for n in range(number, number + count):
            if n in lost:
                unlogged += saves  # a killed life forgets what no log tells
            else:
                with (folder / "activity.jsonl").open("ab") as log:
                    log.write(line(n))
                in_log += 1
            usage.add(record(n))
        number += count
        if saves:
            usage.save()
        # A kill: nothing is saved, the lock is gone. Closing would save.
        usage._dirty = False
        usage.close()

    with counting(folder) as usage:
        assert total(usage)["requests"] == in_log + unlogged


def test_where_the_counted_records_have_left_the_log_the_time_decides(tmp_path: Path) -> None:
    with counting(tmp_path, now=NOON + 10) as usage:
        usage.add(record(1))

    (tmp_path / "activity.jsonl").write_bytes(line(0) + line(2, arrived=NOON + 20))
    with counting(tmp_path, now=NOON + 60) as usage:
        assert total(usage)["requests"] == 2  # 1 and 2: 0 ended before 1 did


def test_counters_are_saved_only_after_the_log_has_what_they_count(tmp_path: Path) -> None:
    order: list[bool] = []

    def flush() -> None:
        order.append((tmp_path / "usage.json").exists())

    with counting(tmp_path, flush=flush) as usage:
        usage.add(record(1))
        usage.save()

        usage.save()  # nothing new: nothing is written

    assert order == [False]


def test_a_second_gateway_in_the_same_folder_is_refused(tmp_path: Path) -> None:
    with counting(tmp_path), pytest.raises(RecordsError, match=r"usage\.json"):
        Usage(tmp_path / "other.jsonl").start()


def test_what_cannot_be_saved_is_said_and_tried_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with counting(tmp_path) as usage:
        (tmp_path / "usage.json").mkdir()
        usage.add(record(1))
        with pytest.raises(IsADirectoryError):
            usage.save()

        (tmp_path / "usage.json").rmdir()
        usage.save()

    assert json.loads((tmp_path / "usage.json").read_bytes())["lifetime"]["total"]["requests"] == 1
    assert "usage_not_saved" not in capsys.readouterr().out


def test_days_and_names_are_bounded(tmp_path: Path) -> None:
    with counting(tmp_path) as usage:
        for n in range(MAX_DAYS + 30):
            usage.add(record(n, arrived=NOON - n * DAY, client=f"client-{n}"))

        book = usage.lifetime()

    assert len(book["days"]) == MAX_DAYS
    assert len(book["lifetime"]["clients"]) == MAX_NAMES + 1
    assert book["lifetime"]["clients"]["(other)"]["requests"] == MAX_DAYS + 30 - MAX_NAMES


def test_usage_lies_beside_the_log_behind_links_too(tmp_path: Path) -> None:
    real = tmp_path / "real"
    real.mkdir()
    (tmp_path / "run").symlink_to(real)

    assert usage_path(tmp_path / "run" / "activity.jsonl") == real / "usage.json"
