"""One line changed in place: everything else stays, byte for byte."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.source import read
from serving.errors import Unusable
from serving.recipes.edit import read_text, with_keys, write_text
from serving.recipes.flags import value_of, with_option, without
from serving.recipes.prices import locked, read_prices, with_price, write_prices


@pytest.mark.parametrize(
    ("line", "after"),
    [
        ("lifecycle: draft", "lifecycle: works"),
        ("lifecycle:   draft   # why", "lifecycle: works   # why"),
        ('lifecycle: "draft" # "why"', 'lifecycle: works # "why"'),
        ("lifecycle: 'dr#aft'", "lifecycle: works"),
        ("lifecycle: dr#aft", "lifecycle: works"),
        ("lifecycle:", "lifecycle: works"),
        ("lifecycle: # nothing yet", "lifecycle: works # nothing yet"),
    ],
)
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_a_value_is_changed_and_its_comment_stays(line: str, after: str, end: str) -> None:
    text = f"# top{end}id: one{end}{line}{end}tail: x  # lifecycle: here{end}"

    assert with_keys(text, {"lifecycle": "works"}, after="id") == text.replace(line, after, 1)


def test_a_key_that_is_not_there_is_put_below_another() -> None:
    assert with_keys("id: one\nb: 2\n", {"c": "x"}, after="id") == "id: one\nc: x\nb: 2\n"
    assert with_keys("id: one", {"c": "x"}, after="id") == "id: one\nc: x\n"


@pytest.mark.parametrize(
    "text",
    [
        "id: one\nlifecycle: >-\n  draft\n",  # over several lines
        "id: one\nlifecycle: |\n  draft\n",
        "{id: one, lifecycle: draft}\n",
        "id: one\nlifecycle: [draft]\nlifecycle: x\n",
    ],
)
def test_what_is_not_one_line_is_left_to_a_person(text: str) -> None:
    with pytest.raises(Unusable, match="edit the file by hand"):
        with_keys(text, {"lifecycle": "works"}, after="id")


VALUES = st.text(st.characters(codec="utf-8", exclude_characters="\r\n\x85\u2028\u2029\x00"))


@given(VALUES, VALUES)
def test_nothing_but_the_wanted_keys_ever_changes(value: str, comment: str) -> None:
    text = f"id: one\nlifecycle: {value}\nnotes: x # {comment}\n"
    before = read(text, "")
    try:
        changed = with_keys(text, {"lifecycle": "works"}, after="id")
    except Unusable:
        return

    assert read(changed, "").data == {**before.data, "lifecycle": "works"}
    assert changed.splitlines()[-1] == text.splitlines()[-1]


def test_a_file_is_replaced_whole_and_keeps_its_mode(tmp_path: Path) -> None:
    path = tmp_path / "one.yaml"
    path.write_text("a: 1\n")
    path.chmod(0o640)

    write_text(path, "a: 2\r\n")

    assert path.read_bytes() == b"a: 2\r\n"
    assert path.stat().st_mode & 0o777 == 0o640
    assert [p.name for p in tmp_path.iterdir()] == ["one.yaml"]


def test_a_place_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    with pytest.raises(Unusable, match="cannot write"):
        write_text(tmp_path / "file" / "one.yaml", "x")
    with pytest.raises(Unusable, match="cannot read"):
        read_text(tmp_path / "none.yaml")


@pytest.mark.parametrize(
    ("args", "value"),
    [
        (("--port", "1"), "1"),
        (("--port=1",), "1"),
        (("--port", "1", "--port=2"), "2"),
        (("--portal", "1"), None),
        (("--port",), None),
    ],
)
def test_an_option_is_read_as_engines_read_it(args: tuple[str, ...], value: str | None) -> None:
    assert value_of(args, "--port", "-p") == value


WORDS = st.lists(st.sampled_from(["--port", "--port=5", "-c", "7", "--other", "x"]))


@given(WORDS)
def test_an_option_that_is_set_reads_back_and_one_taken_out_is_gone(words: list[str]) -> None:
    done = with_option(words, ("--port",), 9)

    assert value_of(done, "--port") == "9" or words[-1:] == ["--port"]
    assert value_of(without(words, "--port"), "--port") is None


def priced(prices: dict[str, Any], cents: int, today: str) -> dict[str, Any]:
    """The prices of `x` with another one, from a day on."""
    price = Decimal(cents) / 100
    return with_price(prices, "x", in_per_m=price, out_per_m=2 * price, today=today)


def spans(prices: dict[str, Any]) -> list[tuple[str, str | None]]:
    """From when until when each holds."""
    return [(row["from"], row["to"]) for row in prices["x"]["history"]]


def test_a_price_ends_the_one_before_it_on_its_first_day_and_the_default_stays() -> None:
    first = priced({}, 100, "2026-01-01")

    second = priced(first, 300, "2026-02-01")

    assert second["x"]["default"] == {"in_per_m": Decimal(1), "out_per_m": Decimal(2)}
    assert spans(second) == [("2026-01-01", "2026-02-01"), ("2026-02-01", None)]


def test_a_price_holds_until_one_that_is_dated_later() -> None:
    later = priced(priced({}, 100, "2026-01-01"), 300, "2027-01-01")

    between = priced(later, 200, "2026-06-01")

    assert spans(between) == [
        ("2026-01-01", "2026-06-01"),
        ("2026-06-01", "2027-01-01"),
        ("2027-01-01", None),
    ]


def test_of_two_prices_on_one_day_the_last_counts() -> None:
    second = priced(priced({}, 100, "2026-01-01"), 300, "2026-01-01")

    assert [row["in_per_m"] for row in second["x"]["history"]] == [Decimal(3)]


def test_a_small_price_is_written_as_people_write_it(tmp_path: Path) -> None:
    price, path = Decimal("0.00001"), tmp_path / "prices.json"

    write_prices(path, with_price({}, "x", in_per_m=price, out_per_m=price, today="2026-01-01"))

    assert "0.00001" in path.read_text()
    assert read_prices(path)["x"]["default"]["in_per_m"] == price


def test_prices_that_somebody_else_changes_are_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "prices.json"

    with locked(path), pytest.raises(Unusable, match="another process"), locked(path):
        pass
