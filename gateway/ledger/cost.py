"""Local tokens beside what the cloud would have charged for them: pure arithmetic on counts.

Each row has one price, so that `tokens x price` can be checked by hand: what was counted under
two prices is two rows. Nothing is dropped: what cannot be priced is a row that says why.

    tagged         its ROI profile has a price on that day
    no price       its ROI profile has none
    undated        it is older than the days that are kept apart
    untagged       nobody named an ROI profile
    burst          the cloud served it and charged for it: nothing local to hold against it
    unattributed   an older release counted it without saying who served
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Final, Literal, get_args

from gateway.ledger.counted import Counted
from gateway.ledger.files import Known
from gateway.ledger.prices import InForce, PriceList, in_force
from gateway.ledger.profiles import Profile
from gateway.records.counters import Served, Tokens
from gateway.records.rollups import NOBODY

By = Literal["roi", "recipe", "model", "day"]
BY: Final[tuple[By, ...]] = get_args(By)
Kind = Literal["tagged", "no price", "undated", "untagged", "burst", "unattributed"]
KINDS: Final[tuple[Kind, ...]] = get_args(Kind)

NOT_COUNTED: Final = (
    "power, hardware and your time: usd is what the cloud would have charged, not what was saved",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """Tokens under one key and one price; `usd` is exact, None where there is no price."""

    kind: Kind
    roi: str | None
    key: str
    label: str
    tokens: Tokens
    price: InForce | None

    @property
    def usd(self) -> Decimal | None:
        if self.price is None:
            return None
        return self.price.price.of(self.tokens.prompt_tokens, self.tokens.completion_tokens)

    def as_data(self) -> dict[str, Any]:
        """The row as JSON has it: money as numbers, to a millionth of a dollar."""
        price, tokens = self.price, self.tokens
        return {
            "roi": self.roi,
            "key": self.key,
            "label": self.label,
            "requests": tokens.requests,
            "prompt_tokens": tokens.prompt_tokens,
            "cached_tokens": tokens.cached_tokens,
            "completion_tokens": tokens.completion_tokens,
            "estimated_tokens": tokens.estimated_tokens,
            "in_per_m": None if price is None else float(price.price.in_per_m),
            "out_per_m": None if price is None else float(price.price.out_per_m),
            "usd": number(self.usd),
            "source": self.kind if price is None else price.source,
            "override": None if price is None else price.override,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """The rows: under each ROI profile those that have one, then the rest, by kind."""

    by: By
    rows: tuple[Row, ...] = ()
    profiles: Mapping[str, Profile] = field(default_factory=dict)

    @property
    def usd(self) -> Decimal:
        """All that has a price, exactly."""
        return total_usd(self.rows)

    def under(self, roi: str | None) -> tuple[Row, ...]:
        """The rows of one ROI profile; None: of nobody's."""
        return tuple(row for row in self.rows if row.roi == roi)

    def of_kind(self, kind: Kind) -> Tokens:
        """The tokens of one kind, together."""
        return total(row for row in self.rows if row.kind == kind)

    def as_data(self) -> dict[str, Any]:
        """The whole as JSON has it."""
        rois = dict.fromkeys(row.roi for row in self.rows if row.roi is not None)
        return {
            "by": self.by,
            "usd": number(self.usd),
            "profiles": {roi: self._profile(roi) for roi in rois},
            "rows": [row.as_data() for row in self.rows],
            "not_counted": NOT_COUNTED,
        }

    def _profile(self, roi: str) -> dict[str, Any]:
        """The sum of an ROI profile's rows, and whose price it is."""
        profile, tokens = self.profiles[roi], total(self.under(roi))
        return {
            "name": profile.name,
            "provider": profile.provider,
            "model": profile.model,
            "requests": tokens.requests,
            "prompt_tokens": tokens.prompt_tokens,
            "completion_tokens": tokens.completion_tokens,
            "usd": number(total_usd(self.under(roi))),
        }


def cost(counted: Iterable[Counted], known: Known, by: By) -> Cost:
    """The rows for what was counted; those without a token are left out."""
    sums: dict[tuple[Kind, str | None, str, InForce | None], Tokens] = {}
    for one in counted:
        kind, roi, price = _judged(one, known)
        key = _key(one, kind, roi, by)
        sums.setdefault((kind, roi, key, price), Tokens()).merge(one.tokens)
    rows = [
        Row(kind=kind, roi=roi, key=key, label=_label(key, known, by), tokens=tokens, price=price)
        for (kind, roi, key, price), tokens in sums.items()
        if tokens.prompt_tokens or tokens.completion_tokens
    ]
    return Cost(by=by, rows=tuple(sorted(rows, key=_place)), profiles=known.profiles)


def _judged(one: Counted, known: Known) -> tuple[Kind, str | None, InForce | None]:
    """The kind, and where it has them the ROI profile and the price of the day."""
    if one.served is None:
        return "unattributed", None, None
    if one.served[0] in known.burst:
        return "burst", None, None
    roi = known.tags.of(one.served)
    if roi is None:
        return "untagged", None, None
    if one.day is None:
        return "undated", roi, None
    price = in_force(known.prices.get(roi, PriceList()), one.day)
    return ("no price" if price is None else "tagged"), roi, price


def _key(one: Counted, kind: Kind, roi: str | None, by: By) -> str:
    if by == "day":
        return "older" if one.day is None else one.day.isoformat()
    if one.served is None:
        return NOBODY
    return (roi or f"({kind})") if by == "roi" else name_of(one.served, by)


def name_of(served: Served, by: By) -> str:
    """What served, in this view: the model group, or the recipe (without a slot: deployment)."""
    group, deployment, recipe = served
    return group if by == "model" else deployment if recipe == NOBODY else recipe


def _label(key: str, known: Known, by: By) -> str:
    if by == "recipe" and key in known.tags.recipes:
        return known.tags.recipes[key].name
    if by == "roi" and key in known.profiles:
        return known.profiles[key].name
    return key


def _place(row: Row) -> tuple[Any, ...]:
    untagged = row.roi is None
    price = () if row.price is None else (row.price.source, row.price.override or "",
                                          row.price.price)  # fmt: skip
    return (untagged, row.roi or "", KINDS.index(row.kind) if untagged else 0, row.key, price)


def total(rows: Iterable[Row]) -> Tokens:
    """The tokens of rows, together."""
    found = Tokens()
    for row in rows:
        found.merge(row.tokens)
    return found


def total_usd(rows: Iterable[Row]) -> Decimal:
    """The dollars of rows that have a price."""
    return sum(_dollars(rows), Decimal(0))


def _dollars(rows: Iterable[Row]) -> Iterator[Decimal]:
    return (row.usd for row in rows if row.usd is not None)


def number(usd: Decimal | None) -> float | None:
    """Dollars at the edge, where JSON has nothing better."""
    return None if usd is None else float(round(usd, 6))
