"""Roll-ups of the last hour and day."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.records.record import Attempt, Record
from gateway.records.rollups import RollUps, Totals, Window, key_of
from tests.records.build import NOON, record


def rolled(*records: tuple[Record, float]) -> RollUps:
    """Records with the seconds after noon at which each ended."""
    rollups = RollUps()
    for r, after in records:
        totals = Totals()
        totals.add(r)
        rollups.add(int(NOON + after) // 60, key_of(r, r.tier), totals)
    return rollups


def requests(rollups: RollUps, window: Window, after: float) -> int:
    found: int = rollups.read(window, NOON + after)["total"]["requests"]
    return found


def test_sums_stand_by_client_model_tier_and_task() -> None:
    two = [
        Attempt(deployment="a", outcome="http-503", ms=1),
        Attempt(deployment="b", outcome="ok", ms=2),
    ]
    rollups = rolled(
        (record(1), 0),
        (record(2, client="jobs", group="bg", tier="background", task="triage", attempts=two), 1),
        (record(3, outcome="cancelled", tok_s=None, ttft_ms=None, prompt_tokens=None), 2),
        (record(4, outcome="refused", group=None, tier=None, deployment=None, attempts=[]), 3),
    )

    found = rollups.read("1h", NOON + 60)

    assert found["total"]["requests"] == 4
    assert found["total"]["attempts"] == 4
    assert found["total"]["prompt_tokens"] == 300
    assert found["total"]["cancelled"] == found["total"]["refused"] == 1
    assert found["clients"]["jobs"]["attempts"] == 2
    assert found["models"]["bg"]["completion_tokens"] == 30
    assert found["tasks"] == {"triage": found["models"]["bg"]}
    assert set(found["tiers"]) == {"interactive", "auxiliary", "background", "burst"}
    assert set(found["models"]) == {"primary-chat", "bg"}


def test_the_hour_is_exact_to_the_minute_and_the_day_to_the_quarter() -> None:
    rollups = rolled((record(1), 0), (record(2), 1800), (record(3), 3599))

    assert requests(rollups, "1h", 3600) == 3
    assert requests(rollups, "1h", 3661) == 2
    assert requests(rollups, "24h", 86_400) == 3
    assert requests(rollups, "24h", 86_400 + 961) == 2
    assert requests(rollups, "24h", 2 * 86_400) == 0


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 40_000), max_size=80))
def test_folding_loses_nothing_and_counts_nothing_twice(pauses: list[int]) -> None:
    moments, now = [], 0
    for pause in pauses:
        now += pause
        moments.append(now)
    rollups = rolled(*((record(n), m) for n, m in enumerate(moments)))

    hour, day = requests(rollups, "1h", now), requests(rollups, "24h", now)

    assert sum(m > now - 3600 for m in moments) <= hour <= sum(m > now - 3660 for m in moments)
    assert sum(m > now - 86_400 for m in moments) <= day
    assert day <= sum(m > now - 86_400 - 900 for m in moments)


def test_what_ended_just_before_the_last_one_counted_joins_it() -> None:
    rollups = rolled((record(1), 61), (record(2), 59))

    assert requests(rollups, "1h", 61) == 2


@given(st.lists(st.floats(1, 1e6), min_size=1, max_size=200))
def test_percentiles_are_exact_to_five_percent(times: list[float]) -> None:
    totals = Totals()
    for time in times:
        totals.add(record(ttft_ms=time))

    for share in (0.5, 0.95):
        rank = max(0, -int(-share * len(times) // 1) - 1)
        exact = sorted(times)[rank]
        found = totals.ttft_ms(share)
        assert found is not None
        assert exact / 1.06 <= found <= exact * 1.06 + 0.1


@pytest.mark.parametrize("field", ["avg_tok_s", "ttft_p50_ms", "ttft_p95_ms"])
def test_without_a_measure_there_is_none(field: str) -> None:
    data: dict[str, Any] = Totals().as_data()

    assert data[field] is None


def test_names_without_end_are_counted_together() -> None:
    rollups = rolled(*((record(n, client=f"c{n}"), 1) for n in range(700)))

    found = rollups.read("1h", NOON + 2)

    assert found["total"]["requests"] == 700
    assert len(found["clients"]) == 513
