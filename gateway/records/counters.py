"""Lifetime and per-day token counters: what `run/usage.json` holds.

The file names the last records that it counted (`through`), so that a restart counts each record
of the log that came later, and none twice.

A file of an older release holds no `served`. It is read on, and counted there from then on, as
`served_since` says: what an older day holds beyond its `served` was never told apart by recipe,
until `backfill.py` finds it in the log.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from gateway.records.record import Record
from gateway.records.rollups import NOBODY, OTHER, TIERS, Key, Totals

VERSION = 1
MAX_DAYS = 366
MAX_NAMES = 256  # of models or clients, all revisions of the file together
REMEMBERED = 256  # ids of the last records

Served = tuple[str, str, str]  # who served: model group, deployment, recipe ("-": no slot)


def served_by(record: Record) -> Served:
    """Who served a record; "-" for what it does not have."""
    return (record.group or NOBODY, record.deployment or NOBODY, record.recipe or NOBODY)


class Tokens(msgspec.Struct):
    """Requests and tokens, summed. Cached is part of prompt, reasoning of completion.

    `estimated_tokens` is the part of prompt and completion that no engine reported.
    """

    requests: int = 0
    failed: int = 0
    cancelled: int = 0
    refused: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    completion_tokens: int = 0
    reasoning_tokens: int = 0
    estimated_tokens: int = 0

    def add(self, totals: Totals) -> None:
        self.requests += totals.requests
        self.failed += totals.failed
        self.cancelled += totals.cancelled
        self.refused += totals.refused
        self.prompt_tokens += totals.prompt_tokens
        self.cached_tokens += totals.cached_tokens
        self.completion_tokens += totals.completion_tokens
        self.reasoning_tokens += totals.reasoning_tokens
        self.estimated_tokens += totals.estimated_tokens

    def merge(self, other: Tokens, times: int = 1) -> None:
        """Add the other's counts; `times=-1` takes them out."""
        for name in self.__struct_fields__:
            setattr(self, name, getattr(self, name) + times * getattr(other, name))


class Ledger(msgspec.Struct):
    """Counters of some time: all together, by model group, client, tier, and by who served.

    `served` is by model group, in it by deployment, in it by recipe.
    """

    total: Tokens = msgspec.field(default_factory=Tokens)
    models: dict[str, Tokens] = msgspec.field(default_factory=dict)
    clients: dict[str, Tokens] = msgspec.field(default_factory=dict)
    # Always all of them, so that no burst traffic shows as a zero.
    tiers: dict[str, Tokens] = msgspec.field(
        default_factory=lambda: {tier: Tokens() for tier in TIERS}
    )
    served: dict[str, dict[str, dict[str, Tokens]]] = msgspec.field(default_factory=dict)

    def add(self, key: Key, served: Served, totals: Totals) -> None:
        client, model, tier, _ = key
        self.total.add(totals)
        self.of(served).add(totals)
        _of(self.clients, client).add(totals)
        if model != NOBODY:
            _of(self.models, model).add(totals)
        if tier != NOBODY:
            _of(self.tiers, tier).add(totals)

    def of(self, served: Served) -> Tokens:
        """The counters of one who served."""
        group, deployment, recipe = served
        try:
            return self.served[group][deployment][recipe]
        except KeyError:
            if sum(1 for _ in self.parts()) >= MAX_NAMES:
                group, deployment, recipe = OTHER, OTHER, NOBODY
            recipes = self.served.setdefault(group, {}).setdefault(deployment, {})
            return recipes.setdefault(recipe, Tokens())

    def parts(self) -> Iterator[tuple[Served, Tokens]]:
        """Everyone who served, with their counters."""
        for group, deployments in self.served.items():
            for deployment, recipes in deployments.items():
                for recipe, tokens in recipes.items():
                    yield (group, deployment, recipe), tokens

    def attributed(self) -> Tokens:
        """What `served` holds, together."""
        found = Tokens()
        for _, tokens in self.parts():
            found.merge(tokens)
        return found

    def as_data(self) -> dict[str, Any]:
        """The counters as `/api/usage` shows them: by deployment and by recipe, each alone."""
        data: dict[str, Any] = msgspec.to_builtins(self)
        del data["served"]
        sums: dict[str, dict[str, Tokens]] = {"deployments": {}, "recipes": {}}
        for (_, deployment, recipe), tokens in self.parts():
            for by, name in (("deployments", deployment), ("recipes", recipe)):
                if name != NOBODY:
                    sums[by].setdefault(name, Tokens()).merge(tokens)
        return {**data, **msgspec.to_builtins(sums)}


class Through(msgspec.Struct):
    """The last records counted: their ids, and when the last one's request ended."""

    ended: float = 0.0
    ids: list[str] = msgspec.field(default_factory=list)


class Book(msgspec.Struct):
    """All of `usage.json`. `since` is the arrival of the first request counted.

    `served_since` is that of the first one counted by who served it.
    """

    version: int = VERSION
    since: str | None = None
    served_since: str | None = None
    updated_at: str | None = None
    through: Through = msgspec.field(default_factory=Through)
    lifetime: Ledger = msgspec.field(default_factory=Ledger)
    days: dict[str, Ledger] = msgspec.field(default_factory=dict)

    def add(self, day: str, key: Key, served: Served, totals: Totals) -> None:
        """Count sums of requests that arrived on this day (UTC)."""
        self.lifetime.add(key, served, totals)
        ledger = self.days.get(day)
        if ledger is None:
            ledger = self.days[day] = Ledger()
            while len(self.days) > MAX_DAYS:
                del self.days[min(self.days)]
        ledger.add(key, served, totals)

    def remember(self, record: Record, ended: float) -> None:
        """Note that this record is counted."""
        if self.since is None:
            self.since = record.at
        if self.served_since is None:
            self.served_since = record.at
        through = self.through
        through.ended = max(through.ended, ended)
        through.ids.append(record.id)
        if len(through.ids) > 2 * REMEMBERED:
            del through.ids[:-REMEMBERED]

    def as_data(self) -> dict[str, Any]:
        """What `/api/usage` answers."""
        return {
            "since": self.since,
            "served_since": self.served_since,
            "updated_at": self.updated_at,
            "lifetime": self.lifetime.as_data(),
            "days": {day: self.days[day].as_data() for day in sorted(self.days)},
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
