"""`gateway usage --cost`: what it prints, row by row."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import get_args

import pytest

from gateway.cli import _parser
from gateway.ledger.cost import BY, By
from tests.cli.conftest import Gateway
from tests.commands import Golden
from tests.ledger import box
from tests.records.build import record


@pytest.fixture
def september(folder: Path) -> Path:
    """The box after a month."""
    box.count(folder, box.month())
    return folder


@pytest.mark.usefixtures("september")
@pytest.mark.parametrize("by", BY)
def test_local_tokens_stand_beside_what_the_cloud_would_have_charged(
    gateway: Gateway, golden: Golden, by: By
) -> None:
    ran = gateway("usage", "--cost", "--by", by)

    assert (ran.code, ran.err) == (0, "")
    golden(f"cost-by-{by}.txt", ran.out)


@pytest.mark.usefixtures("september")
def test_the_same_as_data(gateway: Gateway, golden: Golden) -> None:
    ran = gateway("usage", "--cost", "--by", "recipe", "--json")

    golden("cost.json", ran.out)


@pytest.mark.usefixtures("september")
def test_on_a_terminal_each_cloud_model_is_named_once(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    monkeypatch.setenv("COLUMNS", "140")

    ran = gateway("usage", "--cost", "--by", "recipe")

    starts = [line.split()[0] for line in ran.out.splitlines() if line.strip()]
    assert starts.count("glm-5.3") == 1
    assert starts.count("glm") == 3  # the other prices of the same recipe


@pytest.mark.usefixtures("september")
def test_no_token_is_dropped_in_any_view(gateway: Gateway) -> None:
    every = sum(r.prompt_tokens or 0 for r in box.month())

    views = [json.loads(gateway("usage", "--cost", "--by", by, "--json").out) for by in BY]

    assert {sum(row["prompt_tokens"] for row in view["rows"]) for view in views} == {every}
    assert len({view["usd"] for view in views}) == 1


@pytest.mark.usefixtures("september")
def test_each_row_can_be_checked_by_hand(gateway: Gateway) -> None:
    data = json.loads(gateway("usage", "--cost", "--by", "day", "--json").out)

    priced = [row for row in data["rows"] if row["usd"] is not None]
    for row in priced:
        tokens, price = row["prompt_tokens"], row["in_per_m"]
        answer = row["completion_tokens"] * row["out_per_m"]
        assert row["usd"] == pytest.approx((tokens * price + answer) / 1e6, abs=1e-6)
    assert data["usd"] == pytest.approx(sum(row["usd"] for row in priced), abs=1e-5)


def test_hours_come_from_the_log_and_days_from_the_counters(gateway: Gateway, folder: Path) -> None:
    now = datetime.now(UTC)
    ages = {"1h": 0.5, "24h": 20.0, "7d": 24.0 * 5, "30d": 24.0 * 20, "all": 24.0 * 100}
    box.count(
        folder,
        [
            record(n, arrived=(now - timedelta(hours=h)).timestamp(), **box.AUX)
            for n, h in enumerate(sorted(ages.values(), reverse=True))
        ],
    )

    found = {
        window: json.loads(gateway("usage", "--cost", "--window", window, "--json").out)
        for window in ages
    }

    counts = {w: sum(row["requests"] for row in data["rows"]) for w, data in found.items()}
    assert counts == {"1h": 1, "24h": 2, "7d": 3, "30d": 4, "all": 5}


def test_a_box_without_any_file_of_the_ledger_shows_its_tokens_untagged(
    gateway: Gateway, folder: Path, golden: Golden
) -> None:
    box.count(folder, [box.on(1, "2026-09-01", 10, 20, **box.EMB)])
    (folder / "run/prices.json").unlink()
    for recipe in folder.glob("serving/recipes/*.yaml"):
        recipe.unlink()
    text = (folder / "config.yaml").read_text().replace(", roi_profile: qwen-35b", "")
    (folder / "config.yaml").write_text(text)

    ran = gateway("usage", "--cost")

    assert (ran.code, ran.err) == (0, "")
    golden("cost-untagged.txt", ran.out)


def test_nothing_counted_is_one_line(gateway: Gateway) -> None:
    ran = gateway("usage", "--cost", "--window", "7d")

    assert (ran.code, ran.out) == (0, "no tokens were counted (window 7d)\n")


@pytest.mark.usefixtures("september")
def test_a_local_tag_counts_for_what_no_file_tags_and_for_days_before_it_was_written(
    gateway: Gateway, folder: Path
) -> None:
    tags = {"tiny": "qwen-35b", "emb": "qwen-35b", "glm": "qwen-35b", "aux": "glm-5.3"}
    (folder / "run/roi-tags.json").write_text(json.dumps(tags))

    data = json.loads(gateway("usage", "--cost", "--by", "recipe", "--json").out)

    held = {row["key"]: row["roi"] for row in data["rows"]}
    assert held == {
        "tiny": "qwen-35b",  # by the map
        "emb-1": "qwen-35b",  # by its model group
        "glm": "glm-5.3",  # by its recipe file, which wins
        "aux": "qwen-35b",  # by its model_info, which wins
        "burst-1": None,  # the cloud charged for it: no tag changes that
    }


@pytest.mark.usefixtures("september")
def test_options_win_over_the_file(gateway: Gateway, folder: Path) -> None:
    text = (folder / "config.yaml").read_text()
    (folder / "config.yaml").write_text(text + "  ledger: {prices: nowhere.json}\n")
    (folder / "mine.json").write_text('{"qwen-35b": {"default": {"in_per_m": 1, "out_per_m": 0}}}')

    by_file = json.loads(gateway("usage", "--cost", "--json").out)
    by_option = json.loads(gateway("usage", "--cost", "--json", "--prices", "mine.json").out)
    missing = gateway("usage", "--cost", "--tags", "none.json")

    assert by_file["usd"] == 0
    assert by_option["usd"] == 0.03
    assert missing.code == 1
    assert "there is no none.json" in missing.err


def test_whole_days_are_of_the_cost_alone(gateway: Gateway) -> None:
    ran = gateway("usage", "--window", "7d")

    assert ran.code == 2
    assert "--window 7d is of --cost" in ran.err


def test_every_view_has_its_option() -> None:
    for by in get_args(By):
        assert _parser().parse_args(["usage", "--cost", "--by", by]).by == by
