"""`run/prices.json`: what this machine knows of the cloud's prices, by ROI profile.

The file is JSON, read with the place of each value. It is replaced whole: a reader sees the old
prices or the new ones.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from datetime import date
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Final

import msgspec
from pydantic import AfterValidator, Field, RootModel

from common.problems import Problem, in_order
from common.source import Source
from gateway.ledger.prices import EXAMPLES, Grain, Override, Price, PriceList, Span, is_key
from gateway.ledger.strict import Block, Money, Text, fit, of_this_machine

_ENCODER: Final = msgspec.json.Encoder(decimal_format="number")


def _day(text: str) -> str:
    if not is_key("day", text):
        raise ValueError(f"a day such as {EXAMPLES['day']}")
    return text


Day = Annotated[str, AfterValidator(_day)]


class _Price(Block):
    in_per_m: Money
    out_per_m: Money


class _Span(_Price):
    first: Day = Field(alias="from")
    to: Day | None = None


class _Override(_Price):
    grain: Grain
    key: Text


class _Profile(Block):
    default: _Price | None = None
    history: list[_Span] = []
    overrides: list[_Override] = []


class _File(RootModel[dict[Text, _Profile]]):
    pass


def read_prices(path: Path) -> tuple[Mapping[str, PriceList], Source, tuple[Problem, ...]]:
    """Prices by ROI profile, the file as data, and its problems. No file: no prices."""
    source = of_this_machine(path)
    if source is None:
        return {}, Source(file=str(path)), ()
    fitted, problems = fit(_File, source)
    if fitted is None:
        return {}, source, problems
    problems = tuple(p for roi, one in fitted.root.items() for p in _faults(roi, one, source))
    return {roi: _prices(one) for roi, one in fitted.root.items()}, source, in_order(problems)


def write_prices(path: Path, prices: Mapping[str, PriceList]) -> None:
    """Replace the file, at once and for good; OSError leaves the old one."""
    data = msgspec.json.format(_ENCODER.encode({k: _data(v) for k, v in prices.items()}), indent=2)
    new = path.with_name(f"{path.name}.new")
    path.parent.mkdir(parents=True, exist_ok=True)
    with new.open("wb") as file:
        file.write(data + b"\n")
        file.flush()
        os.fsync(file.fileno())
    new.replace(path)


def _prices(block: _Profile) -> PriceList:
    return PriceList(
        default=None if block.default is None else _price(block.default),
        history=tuple(sorted(map(_span, block.history), key=lambda span: span.first)),
        overrides=tuple(Override(o.grain, o.key, _price(o)) for o in block.overrides),
    )


def _price(block: _Price) -> Price:
    return Price(block.in_per_m, block.out_per_m)


def _span(block: _Span) -> Span:
    until = None if block.to is None else date.fromisoformat(block.to)
    return Span(date.fromisoformat(block.first), until, _price(block))


def _faults(roi: str, block: _Profile, source: Source) -> Iterator[Problem]:
    """What is wrong between values that each are right."""
    spans = sorted(enumerate(map(_span, block.history)), key=lambda item: item[1].first)
    for i, span in spans:
        if span.until is not None and span.until <= span.first:
            said = f"`to` ({span.until}) is not after `from` ({span.first}): it is the first day "
            said += "that the price no longer holds on"
            at = source.value((roi, "history", i, "to"))
            yield Problem(at, "error", "wrong-value", said)
    for (_, one), (i, two) in pairwise(spans):
        if one.until is None or one.until > two.first:
            said = f"this begins on {two.first}, and the price from {one.first} still holds then: "
            at = source.value((roi, "history", i))
            yield Problem(at, "error", "overlap", said + "a day has one price, so set its `to`")
    seen: set[tuple[str, str]] = set()
    for i, override in enumerate(block.overrides):
        at = source.value((roi, "overrides", i, "key"))
        if not is_key(override.grain, override.key):
            said = f"a {override.grain} is written {EXAMPLES[override.grain]}, not `{override.key}`"
            yield Problem(at, "error", "wrong-value", said)
        if (override.grain, override.key) in seen:
            said = f"there are two overrides for {override.grain} {override.key}: leave one"
            yield Problem(at, "error", "overlap", said)
        seen.add((override.grain, override.key))


def _data(prices: PriceList) -> dict[str, Any]:
    default = prices.default
    return {
        "default": None if default is None else _numbers(default),
        "history": [
            {
                "from": span.first.isoformat(),
                "to": None if span.until is None else span.until.isoformat(),
                **_numbers(span.price),
            }
            for span in prices.history
        ],
        "overrides": [
            {"grain": o.grain, "key": o.key, **_numbers(o.price)} for o in prices.overrides
        ],
    }


def _numbers(price: Price) -> dict[str, Decimal]:
    return {"in_per_m": price.in_per_m, "out_per_m": price.out_per_m}
