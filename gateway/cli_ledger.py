"""`gateway usage --cost`: local tokens beside what the cloud would have charged for them.

It only reads. Tags and prices are looked up now, for every day: a day is charged at the price that
was in force on it, by the profile that its recipe is held against today.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

from common.problems import has_errors, render
from gateway.cli_files import Unusable, complain, ledger_files, named
from gateway.cli_tables import print_json, print_table
from gateway.config.config import Config, LedgerFiles
from gateway.ledger import counted
from gateway.ledger.cost import KINDS, NOT_COUNTED, Cost, Kind, Row, cost, total, total_usd
from gateway.ledger.counted import Counted
from gateway.ledger.files import read
from gateway.ledger.prices import shown
from gateway.records.counters import Book, Tokens
from gateway.records.segments import iter_records
from gateway.records.usage import read_book, usage_path

_DAYS: Final = {"7d": 7, "30d": 30}
_HOURS: Final = {"1h": 1, "24h": 24}
_HEADS: Final = ("requests", "prompt", "cached", "completion", "in/M", "out/M", "usd", "source",
                 "override")  # fmt: skip

# What there is to say about each kind of row without a price.
_HINTS: Final[dict[Kind, str]] = {
    "no price": "its ROI profile has no price on that day; `gateway usage price` sets one",
    "undated": "older than the days that are kept apart, so that no day's price holds",
    "untagged": "nobody named an ROI profile: in its recipe, in model_info, or in {tags}",
    "burst": "served by the cloud, which charged for it: nothing local to hold against it",
    "unattributed": "counted without saying who served; `gateway usage backfill` may tell",
}


def run(args: argparse.Namespace) -> int:
    """Print the ledger; 1 if one of its files has errors or cannot be read."""
    try:
        config = named(args)
        files = ledger_files(args, config)
        known = read(files, config)
        if known.problems:
            print(render(known.problems), file=sys.stderr)
        if has_errors(known.problems):
            raise Unusable("the ledger's files have errors: mend them first")
        book, window = _book(config), args.window or "all"
        found = cost(_counted(window, config, book), known, args.by)
    except Unusable as error:
        return complain(str(error))
    except OSError as error:
        return complain(f"cannot read {error.filename}: {error.strerror}; check its permissions")
    about = {"window": window, "since": book.since, "served_since": book.served_since}
    if args.json:
        print_json({**about, **found.as_data()})
    elif not found.rows:
        print(f"no tokens were counted (window {window})")
    else:
        print(f"window {window}, days in UTC, counted since {book.since}")
        _table(found)
        _footer(found, files)
    return 0


def _book(config: Config) -> Book:
    path = usage_path(config.activity.path)
    try:
        return read_book(path) or Book()
    except ValueError as error:
        raise Unusable(
            f"{path} is damaged ({error}); the next start of the gateway counts anew from the log"
        ) from error


def _counted(window: str, config: Config, book: Book) -> Iterable[Counted]:
    """Hours come from the log, whole days from the counters."""
    now = datetime.now(UTC)
    if window in _HOURS:
        since = now - timedelta(hours=_HOURS[window])
        return counted.of_log(iter_records(config.activity.path, since))
    return counted.of_book(book, counted.first_day(now, _DAYS[window]) if window in _DAYS else None)


def _table(found: Cost) -> None:
    by = {"roi": ("cloud model",), "recipe": ("recipe", "name")}.get(found.by, (found.by,))
    rows = []
    for roi in dict.fromkeys(row.roi for row in found.rows):
        under = found.under(roi)
        rows += [_cells(found, row) for row in under]
        if roi is not None and len(under) > 1:
            rows.append((roi, "(all)", *("",) * (len(by) - 1), *_sums(under)))
    rows.append(("(all)", "-", *("",) * (len(by) - 1), *_sums(found.rows)))
    print_table(("held against", *by, *_HEADS), rows, quiet=1)


def _cells(found: Cost, row: Row) -> Sequence[str]:
    first = row.roi or f"({row.kind})"
    name: Sequence[str] = (row.key, row.label) if found.by == "recipe" else (row.key,)
    if found.by == "roi":
        name = ("-",) if row.roi is None else (row.label,)
    if row.price is None:
        return (first, *name, *_tokens(row.tokens), "-", "-", "-", row.kind, "")
    price = row.price.price
    return (
        *(first, *name, *_tokens(row.tokens)),
        *(f"{price.in_per_m:f}", f"{price.out_per_m:f}", _usd([row])),
        *(row.price.source, row.price.override or ""),
    )


def _sums(rows: Iterable[Row]) -> Iterator[str]:
    rows = tuple(rows)
    yield from (*_tokens(total(rows)), "", "", _usd(rows), "", "")


def _tokens(tokens: Tokens) -> tuple[str, ...]:
    """Requests, prompt, cached, completion; with a `~` where some were estimated."""
    about = "~" if tokens.estimated_tokens else ""
    counts = (tokens.prompt_tokens, tokens.cached_tokens, tokens.completion_tokens)
    prompt, cached, completion = counts
    return (str(tokens.requests), f"{about}{prompt}", str(cached), f"{about}{completion}")


def _usd(rows: Iterable[Row]) -> str:
    return shown(total_usd(rows))


def _footer(found: Cost, files: LedgerFiles) -> None:
    """What the numbers leave out."""
    print()
    for line in NOT_COUNTED:
        print(f"not counted: {line}")
    every = total(found.rows)
    if every.cached_tokens:
        print(f"cached: {every.cached_tokens} prompt tokens came from a cache; they are charged as "
              "any input, so a cloud that discounts them would charge less")  # fmt: skip
    if every.estimated_tokens:
        print(f"~: {every.estimated_tokens} tokens are estimated, no engine reported them")
    if any(row.price is not None and row.price.source == "default" for row in found.rows):
        print("default: a price without a date, taken for days that no dated price holds on")
    for kind in KINDS:
        if kind in _HINTS and any(row.kind == kind for row in found.rows):
            print(f"{kind}: {_HINTS[kind].format(tags=files.tags)}")
