"""Lifetime and per-day token counters: what `run/usage.json` holds.

The file names the last records that it counted (`through`), so that a restart counts each record
of the log that came later, and none twice.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from gateway.records.record import Record
from gateway.records.rollups import NOBODY, OTHER, TIERS, Key, Totals

VERSION = 1
MAX_DAYS = 366
MAX_NAMES = 256  # of models or clients, all revisions of the file together
REMEMBERED = 256  # ids of the last records


class Tokens(msgspec.Struct):
    """Requests and tokens, summed. Cached is part of prompt, reasoning of completion."""

    requests: int = 0
    failed: int = 0
    cancelled: int = 0
    refused: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    completion_tokens: int = 0
    reasoning_tokens: int = 0

    def add(self, totals: Totals) -> None:
        self.requests += totals.requests
        self.failed += totals.failed
        self.cancelled += totals.cancelled
        self.refused += totals.refused
        self.prompt_tokens += totals.prompt_tokens
        self.cached_tokens += totals.cached_tokens
        self.completion_tokens += totals.completion_tokens
        self.reasoning_tokens += totals.reasoning_tokens


class Ledger(msgspec.Struct):
    """Counters of some time: all together, by model group, by client and by tier."""

    total: Tokens = msgspec.field(default_factory=Tokens)
    models: dict[str, Tokens] = msgspec.field(default_factory=dict)
    clients: dict[str, Tokens] = msgspec.field(default_factory=dict)
    # Always all of them, so that no burst traffic shows as a zero.
    tiers: dict[str, Tokens] = msgspec.field(
        default_factory=lambda: {tier: Tokens() for tier in TIERS}
    )

    def add(self, key: Key, totals: Totals) -> None:
        client, model, tier, _ = key
        self.total.add(totals)
        _of(self.clients, client).add(totals)
        if model != NOBODY:
            _of(self.models, model).add(totals)
        if tier != NOBODY:
            _of(self.tiers, tier).add(totals)


class Through(msgspec.Struct):
    """The last records counted: their ids, and when the last one's request ended."""

    ended: float = 0.0
    ids: list[str] = msgspec.field(default_factory=list)


class Book(msgspec.Struct):
    """All of `usage.json`. `since` is the arrival of the first request counted."""

    version: int = VERSION
    since: str | None = None
    updated_at: str | None = None
    through: Through = msgspec.field(default_factory=Through)
    lifetime: Ledger = msgspec.field(default_factory=Ledger)
    days: dict[str, Ledger] = msgspec.field(default_factory=dict)

    def add(self, day: str, key: Key, totals: Totals) -> None:
        """Count sums of requests that arrived on this day (UTC)."""
        self.lifetime.add(key, totals)
        ledger = self.days.get(day)
        if ledger is None:
            ledger = self.days[day] = Ledger()
            while len(self.days) > MAX_DAYS:
                del self.days[min(self.days)]
        ledger.add(key, totals)

    def remember(self, record: Record, ended: float) -> None:
        """Note that this record is counted."""
        if self.since is None:
            self.since = record.at
        through = self.through
        through.ended = max(through.ended, ended)
        through.ids.append(record.id)
        if len(through.ids) > 2 * REMEMBERED:
            del through.ids[:-REMEMBERED]

    def as_data(self) -> dict[str, Any]:
        """What `/api/usage` answers."""
        return {
            "since": self.since,
            "updated_at": self.updated_at,
            "lifetime": msgspec.to_builtins(self.lifetime),
            "days": {day: msgspec.to_builtins(self.days[day]) for day in sorted(self.days)},
        }


def last_counted(through: Through, records: Iterable[Record]) -> int:
    """The place in the log of the last record that `through` counted; -1: it is not there."""
    remembered = set(through.ids)
    if not remembered:
        return -1
    return max((i for i, record in enumerate(records) if record.id in remembered), default=-1)


def _of(names: dict[str, Tokens], name: str) -> Tokens:
    found = names.get(name)
    if found is None:
        if len(names) >= MAX_NAMES:
            name = OTHER
        found = names.setdefault(name, Tokens())
    return found
