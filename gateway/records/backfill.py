"""What the log still tells of days whose counters were not kept apart by who served.

A day is replaced whole or left, never added to: twice is as good as once.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from gateway.records.counters import Book, Ledger, served_by
from gateway.records.record import Record
from gateway.records.rollups import Totals, key_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Recounted:
    """One day: its requests, those told apart before and now, and whether it was replaced."""

    day: str
    requests: int
    before: int
    now: int
    taken: bool


def recount(book: Book, records: Iterable[Record]) -> list[Recounted]:
    """Replace a day's `served` by the log's count where that knows more of the day's requests.

    `records` are those that the book has counted. A record that stands twice counts once. A day
    of which the log holds more than was ever counted is left: one of the two is not this
    gateway's.
    """
    in_log, first = _days(records)
    done = []
    for day in sorted(in_log.keys() & book.days.keys()):
        held, found = book.days[day], in_log[day]
        before, now = held.attributed().requests, found.total.requests
        taken = before < now <= held.total.requests
        if taken:
            _replace(book.lifetime, held, found)
            book.served_since = min(book.served_since or first[day], first[day])
        counted = held.total.requests
        after = now if taken else before
        done.append(Recounted(day=day, requests=counted, before=before, now=after, taken=taken))
    return done


def _days(records: Iterable[Record]) -> tuple[dict[str, Ledger], dict[str, str]]:
    """Each day of the log, counted anew, and when its first request arrived."""
    days: dict[str, Ledger] = {}
    first: dict[str, str] = {}
    seen: set[str] = set()
    for record in records:
        if record.id in seen:
            continue
        seen.add(record.id)
        day, totals = record.at[:10], Totals()
        totals.add(record)
        days.setdefault(day, Ledger()).add(key_of(record, record.tier), served_by(record), totals)
        first[day] = min(first.get(day, record.at), record.at)
    return days, first


def _replace(lifetime: Ledger, held: Ledger, found: Ledger) -> None:
    """The day's parts, and the same change in the sum of all days."""
    for parts, times in ((list(held.parts()), -1), (list(found.parts()), 1)):
        for served, tokens in parts:
            lifetime.of(served).merge(tokens, times)
    held.served = found.served
