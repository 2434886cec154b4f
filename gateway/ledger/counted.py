"""What was counted, day by day and by who served, from the counters or from the log."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import date, datetime, timedelta

from gateway.records.counters import Book, Ledger, Served, Tokens, served_by
from gateway.records.record import Record
from gateway.records.rollups import Totals


@dataclass(frozen=True, slots=True)
class Counted:
    """Tokens of one day by one who served.

    `day` is None for days older than the counters keep apart, `served` for what an older release
    counted without saying who served.
    """

    day: date | None
    served: Served | None
    tokens: Tokens


def of_book(book: Book, since: date | None = None) -> Iterator[Counted]:
    """The days from `since` on; without it all of them, and what is older than they reach."""
    older = Ledger(total=copied(book.lifetime.total))
    for served, tokens in book.lifetime.parts():
        older.of(served).merge(tokens)
    for text, ledger in sorted(book.days.items()):
        day = date.fromisoformat(text)
        if since is None or day >= since:
            yield from _parts(day, ledger)
        older.total.merge(ledger.total, -1)
        for served, tokens in ledger.parts():
            older.of(served).merge(tokens, -1)
    if since is None:
        yield from _parts(None, older)


def _parts(day: date | None, ledger: Ledger) -> Iterator[Counted]:
    """Who served, and the rest of the total."""
    for served, tokens in ledger.parts():
        yield Counted(day, served, tokens)
    rest = copied(ledger.total)
    rest.merge(ledger.attributed(), -1)
    # An older release did not sum up what was estimated, and a recount does.
    rest.estimated_tokens = max(0, rest.estimated_tokens)
    yield Counted(day, None, rest)


def of_log(records: Iterable[Record]) -> Iterator[Counted]:
    """Each record on its own, on the day (UTC) on which its request arrived."""
    for record in records:
        totals, tokens = Totals(), Tokens()
        totals.add(record)
        tokens.add(totals)
        yield Counted(date.fromisoformat(record.at[:10]), served_by(record), tokens)


def first_day(now: datetime, days: int) -> date:
    """The first of the last `days` days (UTC), the day of `now` included."""
    return now.date() - timedelta(days=days - 1)


def copied(tokens: Tokens) -> Tokens:
    """A copy to calculate with."""
    found = Tokens()
    found.merge(tokens)
    return found
