"""Which price holds on a day: for any list of prices and any day."""

from __future__ import annotations

from datetime import date, timedelta
from decimal import Decimal
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.ledger.prices import (
    EXAMPLES,
    GRAINS,
    Override,
    Price,
    PriceList,
    Span,
    from_day,
    in_force,
    is_key,
    overridden,
    shown,
)

amounts = st.decimals(0, 1000, places=4)
prices = st.builds(Price, amounts, amounts)
days = st.dates(date(2020, 2, 27), date(2021, 4, 3))
changes = st.lists(st.tuples(days, prices), max_size=8)


def key(grain: str, day: date) -> str:
    """Written apart from the code that is tested."""
    quarter = {1: 1, 2: 1, 3: 1, 4: 2, 5: 2, 6: 2, 7: 3, 8: 3, 9: 3, 10: 4, 11: 4, 12: 4}
    year = f"{day.year}"
    written = {"day": f"{day}", "month": f"{day}"[:7], "qtr": f"{year}-Q{quarter[day.month]}"}
    return written.get(grain, year)


def changed(made: list[tuple[date, Price]]) -> PriceList:
    found = PriceList()
    for day, price in made:
        found = from_day(found, price, day)
    return found


@given(changes, days)
def test_a_day_has_the_price_that_was_set_last_of_those_that_begin_by_then(
    made: list[tuple[date, Price]], day: date
) -> None:
    begun = [(first, n, price) for n, (first, price) in enumerate(made) if first <= day]

    found = in_force(changed(made), day)

    if begun:
        assert found is not None
        assert (found.source, found.price) == ("history", max(begun)[2])
    elif made:
        assert found is not None
        assert (found.source, found.price) == ("default", made[0][1])
    else:
        assert found is None


@given(changes, days, prices, days)
def test_a_new_price_changes_no_day_before_it(
    made: list[tuple[date, Price]], first: date, price: Price, day: date
) -> None:
    before = changed(made)

    after = from_day(before, price, first)

    if made and day < first:
        assert in_force(after, day) == in_force(before, day)
    for one, two in pairwise(after.history):
        assert one.until is not None
        assert one.first < one.until <= two.first


@given(changes, st.lists(st.tuples(st.sampled_from(GRAINS), days, prices), max_size=8), days)
def test_the_finest_override_of_a_day_wins_over_the_history(
    made: list[tuple[date, Price]], over: list[tuple[str, date, Price]], day: date
) -> None:
    listed = changed(made)
    for grain, at, price in over:
        listed = overridden(listed, Override(grain, key(grain, at), price))  # type: ignore[arg-type]

    found = in_force(listed, day)

    of_day = {grain: price for grain, at, price in over if key(grain, at) == key(grain, day)}
    finest = next((grain for grain in GRAINS if grain in of_day), None)
    if finest is None:
        assert found == in_force(changed(made), day)
    else:
        assert found is not None
        assert (found.source, found.price) == ("override", of_day[finest])
        assert found.override == f"{finest} {key(finest, day)}"


@given(days)
def test_a_part_of_the_calendar_is_written_in_one_way(day: date) -> None:
    for grain in GRAINS:
        assert [g for g in GRAINS if is_key(g, key(grain, day))] == [grain]


@pytest.mark.parametrize(
    "text",
    ["", "26", "2026-1", "2026-13", "2026-Q0", "2026-Q5", "2026-q4", "2026Q4", "2026-11-31",
     "20261130", "2026-11-30 ", "-2026", "2026-W48"],
)  # fmt: skip
def test_nothing_else_is_one(text: str) -> None:
    assert not [grain for grain in GRAINS if is_key(grain, text)]
    assert all(is_key(grain, example) for grain, example in EXAMPLES.items())


def test_a_price_holds_until_the_day_before_the_next_takes_over() -> None:
    price = Price(Decimal(1), Decimal(2))
    listed = PriceList(history=(Span(date(2026, 3, 1), date(2026, 4, 1), price),))

    held = [day for n in range(60) if in_force(listed, day := date(2026, 2, 20) + timedelta(n))]

    assert (held[0], held[-1], len(held)) == (date(2026, 3, 1), date(2026, 3, 31), 31)


@given(st.integers(0, 10**15), st.integers(0, 10**15), prices)
def test_money_is_exact(prompt: int, completion: int, price: Price) -> None:
    usd = price.of(prompt, completion)

    in_cents = prompt * int(price.in_per_m * 10**4) + completion * int(price.out_per_m * 10**4)
    assert int(usd * 10**10) == in_cents


@pytest.mark.parametrize(
    ("usd", "text"),
    [("0", "0.0000"), ("0.00005", "0.0000"), ("0.12345", "0.1234"), ("0.99999", "1.0000"),
     ("1", "1.00"), ("1.005", "1.00"), ("1234.567", "1,234.57")],
)  # fmt: skip
def test_money_is_shown_with_four_decimals_under_a_dollar_and_two_above(
    usd: str, text: str
) -> None:
    assert shown(Decimal(usd)) == text
