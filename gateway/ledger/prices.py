"""Which price is in force on a day, and how a list of prices changes. Nothing here reads a file.

A day's price is the first of these that there is:
    1. the override of the finest grain: of the day, of its month, of its quarter, of its year
    2. the entry of the history that holds then: from its `from` on, until the day before its `to`
    3. the default, an assumption about days that nobody dated
Money is Decimal and never a float: 0.1 + 0.2 is 0.3 here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import date
from decimal import Decimal
from typing import Final, Literal, get_args

Grain = Literal["day", "month", "qtr", "year"]
GRAINS: Final[tuple[Grain, ...]] = get_args(Grain)  # the finest first
Source = Literal["override", "history", "default"]

# The key of the day's own part of the calendar, such as 2026-11-30, 2026-11, 2026-Q4, 2026.
_KEYS: Final[Mapping[Grain, Callable[[date], str]]] = {
    "day": lambda d: d.isoformat(),
    "month": lambda d: f"{d.year:04d}-{d.month:02d}",
    "qtr": lambda d: f"{d.year:04d}-Q{(d.month + 2) // 3}",
    "year": lambda d: f"{d.year:04d}",
}
EXAMPLES: Final[Mapping[Grain, str]] = {
    grain: key(date(2026, 11, 30)) for grain, key in _KEYS.items()
}
_MILLION: Final = Decimal(1_000_000)


@dataclass(frozen=True, slots=True, order=True)
class Price:
    """Dollars for a million tokens read and a million written."""

    in_per_m: Decimal
    out_per_m: Decimal

    def of(self, prompt_tokens: int, completion_tokens: int) -> Decimal:
        """What the tokens cost, exactly. Cached tokens are input, reasoning is output."""
        return (prompt_tokens * self.in_per_m + completion_tokens * self.out_per_m) / _MILLION


@dataclass(frozen=True, slots=True)
class Span:
    """A price from its first day until another price takes over; None: until now and on."""

    first: date
    until: date | None  # the first day that it no longer holds on
    price: Price

    def holds(self, day: date) -> bool:
        return self.first <= day and (self.until is None or day < self.until)


@dataclass(frozen=True, slots=True)
class Override:
    """A price for one part of the calendar, whatever the history says."""

    grain: Grain
    key: str
    price: Price


@dataclass(frozen=True, slots=True, kw_only=True)
class PriceList:
    """The prices of one ROI profile; the history by date, without overlaps."""

    default: Price | None = None
    history: tuple[Span, ...] = ()
    overrides: tuple[Override, ...] = ()


@dataclass(frozen=True, slots=True, order=True)
class InForce:
    """A price, where it comes from, and the override's words where it is one."""

    price: Price
    source: Source
    override: str | None = None


def in_force(prices: PriceList, day: date) -> InForce | None:
    """The price of a day; None where nothing is known of it. The cases are the module's."""
    overrides = {(one.grain, one.key): one.price for one in prices.overrides}
    for grain in GRAINS:  # 1
        key = _KEYS[grain](day)
        if (grain, key) in overrides:
            return InForce(overrides[grain, key], "override", f"{grain} {key}")
    for span in prices.history:  # 2
        if span.holds(day):
            return InForce(span.price, "history")
    if prices.default is not None:  # 3
        return InForce(prices.default, "default")
    return None


def is_key(grain: Grain, key: str) -> bool:
    """True where `key` names a day, month, quarter or year in the one way it is written."""
    year, _, rest = key.partition("-")
    month = {"month": rest, "qtr": {"Q1": "01", "Q2": "04", "Q3": "07", "Q4": "10"}.get(rest, "")}
    text = key if grain == "day" else f"{year}-{month.get(grain, '01')}-01"
    try:
        return _KEYS[grain](date.fromisoformat(text)) == key
    except ValueError:
        return False


def from_day(prices: PriceList, price: Price, day: date) -> PriceList:
    """The list with a price that takes effect on `day`: what earlier days cost does not change.

    It holds until the next entry that is there already. An entry of the very same day is
    corrected. The first price of all is the default too: of the days before, nothing better is
    known.
    """
    later = min((span.first for span in prices.history if span.first > day), default=None)
    kept = tuple(_before(prices.history, day, later))
    spans = (*kept, Span(day, later, price))
    first = prices.default is None and not prices.history
    return replace(
        prices,
        default=price if first else prices.default,
        history=tuple(sorted(spans, key=lambda span: span.first)),
    )


def _before(history: tuple[Span, ...], day: date, later: date | None) -> Iterator[Span]:
    for span in history:
        if later is not None and span.first >= later:
            yield span
        elif span.first < day:
            yield replace(span, until=day) if span.holds(day) else span


def overridden(prices: PriceList, override: Override) -> PriceList:
    """The list with this override, in place of one of the same grain and key."""
    rest = tuple(o for o in prices.overrides if (o.grain, o.key) != (override.grain, override.key))
    return replace(prices, overrides=(*rest, override))


def shown(usd: Decimal) -> str:
    """Dollars for people: 4 decimals under a dollar, 2 above. Rounded here and nowhere before."""
    return f"{usd:.4f}" if usd < 1 else f"{usd:,.2f}"
