"""`gateway usage price`: a price with the day it takes effect; what was before is kept."""

from __future__ import annotations

import json
import threading
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from gateway.records.lock import FileLock
from tests.cli.conftest import Gateway
from tests.ledger import box


def prices(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "run/prices.json").read_text())
    return found


def test_the_first_price_is_dated_and_holds_for_the_days_before_too(
    gateway: Gateway, folder: Path
) -> None:
    (folder / "run/prices.json").unlink()

    ran = gateway("usage", "price", "glm-5.3", "in=0.60", "out=2.2", "--from", "2026-11-01")

    assert (ran.code, ran.err) == (0, "")
    assert ran.out == (
        "glm-5.3: in 0.60, out 2.2 a million tokens from 2026-11-01; the default too, for days "
        "before (run/prices.json)\n"
    )
    price = {"in_per_m": 0.6, "out_per_m": 2.2}
    assert prices(folder) == {
        "glm-5.3": {
            "default": price,
            "history": [{"from": "2026-11-01", "to": None, **price}],
            "overrides": [],
        }
    }


def test_without_a_day_it_takes_effect_today_and_ends_what_held(
    gateway: Gateway, folder: Path
) -> None:
    today = datetime.now(UTC).date()

    ran = gateway("usage", "price", "glm-5.3", "out=3", "in=1")

    assert ran.code == 0
    _, before, now = prices(folder)["glm-5.3"]["history"]
    assert before["to"] == str(today)
    assert now == {"from": str(today), "to": None, "in_per_m": 1, "out_per_m": 3}
    assert prices(folder)["qwen-35b"]["default"] == box.PRICES["qwen-35b"]["default"]


def test_a_price_in_the_midst_of_the_history_ends_where_the_next_begins(
    gateway: Gateway, folder: Path
) -> None:
    ran = gateway("usage", "price", "glm-5.3", "in=1", "out=3", "--from", "2026-09-15")

    spans = [(one["from"], one["to"]) for one in prices(folder)["glm-5.3"]["history"]]
    assert "from 2026-09-15 until 2026-09-21" in ran.out
    assert spans == [
        ("2026-09-10", "2026-09-15"),
        ("2026-09-15", "2026-09-21"),
        ("2026-09-21", None),
    ]


@pytest.mark.parametrize(
    "override", ["day=2026-09-15", "month=2026-09", "qtr=2026-Q3", "year=2026"]
)
def test_an_override_replaces_one_of_the_same_part_of_the_calendar(
    gateway: Gateway, folder: Path, override: str
) -> None:
    box.count(folder, box.month()[1:2])
    grain, key = override.split("=")

    for amount in ("in=1", "in=3"):
        ran = gateway("usage", "price", "glm-5.3", amount, "out=0", "--override", override)
        assert ran.code == 0
    data = json.loads(gateway("usage", "--cost", "--json").out)

    assert (data["usd"], data["rows"][0]["override"]) == (6.0, f"{grain} {key}")
    assert len(prices(folder)["glm-5.3"]["overrides"]) == 2  # and the box's own
    assert prices(folder)["glm-5.3"]["history"] == box.PRICES["glm-5.3"]["history"]


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("in=NaN", "out=1"), "'in=NaN' is no price"),
        (("in=-1", "out=1"), "'in=-1' is no price"),
        (("in=1e3", "out=1"), "'in=1e3' is no price"),
        (("in=0.1234567", "out=1"), "is no price"),
        (("in=", "out=1"), "'in=' is no price"),
        (("1", "2"), "'1' is no price"),
        (("in=1", "in=2"), "a price is two amounts"),
        (("in=1",), "required"),
        (("in=1", "out=1", "--from", "2026-02-30"), "'2026-02-30' is no day"),
        (("in=1", "out=1", "--override", "week=2026-W3"), "not `week`"),
        (("in=1", "out=1", "--override", "month=2026-Q3"), "a month is written 2026-11"),
        (("in=1", "out=1", "--override", "year=2026", "--from", "2026-01-01"), "not allowed"),
    ],
)
def test_wrong_arguments_change_nothing(
    gateway: Gateway, folder: Path, args: tuple[str, ...], said: str
) -> None:
    ran = gateway("usage", "price", "glm-5.3", *args)

    assert (ran.code, ran.out) == (2, "")
    assert said in ran.err
    assert prices(folder) == box.PRICES


def test_a_profile_that_is_not_in_git_has_no_price(gateway: Gateway, folder: Path) -> None:
    ran = gateway("usage", "price", "glm-5.2", "in=1", "out=1")

    assert ran.code == 1
    assert "there is no ROI profile `glm-5.2`" in ran.err
    assert "did you mean 'glm-5.3'" in ran.err
    assert prices(folder) == box.PRICES


def test_a_file_with_errors_is_left_as_it_is(gateway: Gateway, folder: Path) -> None:
    (folder / "run/prices.json").write_text('{"glm-5.3": {"default": 3}}')

    ran = gateway("usage", "price", "glm-5.3", "in=1", "out=1")

    assert ran.code == 1
    assert "run/prices.json:1:25: error[wrong-type]" in ran.err
    assert prices(folder) == {"glm-5.3": {"default": 3}}


def test_two_that_write_at_once_do_not_lose_a_price(gateway: Gateway, folder: Path) -> None:
    lock = FileLock(folder / "run/prices.json")
    lock.take()
    try:
        ran = gateway("usage", "price", "glm-5.3", "in=1", "out=1")
    finally:
        lock.close()

    assert ran.code == 1
    assert "another process is writing the prices" in ran.err


def test_a_reader_sees_the_old_prices_or_the_new_ones(gateway: Gateway, folder: Path) -> None:
    seen: list[int] = []
    done = threading.Event()

    def read() -> None:
        while not done.is_set():
            seen.append(len(prices(folder)))

    reader = threading.Thread(target=read)
    reader.start()
    for n in range(8):
        assert gateway("usage", "price", "glm-5.3", f"in={n}", "out=1").code == 0
    done.set()
    reader.join()

    assert set(seen) == {2}
    assert not (folder / "run/prices.json.new").exists()
