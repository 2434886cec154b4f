"""`gateway usage` and `gateway activity`: what was served, from the files that the gateway writes.

Both only read, so they work beside a running gateway and after it. What it has not yet written (at
most the last seconds) is not in them; `/api/activity` and `/api/usage` tell that too. Only `usage
backfill` writes, and wants the gateway stopped.
"""

from __future__ import annotations

import argparse
import os
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from gateway.cli_files import Unusable, complain, named
from gateway.cli_tables import print_json, print_table
from gateway.config.config import Config
from gateway.records.backfill import Recounted
from gateway.records.counters import Book
from gateway.records.lock import RecordsError
from gateway.records.record import Record
from gateway.records.rollups import WINDOWS, RollUps, Totals, Window, key_of
from gateway.records.segments import iter_records, seconds
from gateway.records.usage import Usage, read_book, usage_path

_DIMENSIONS = ("clients", "models", "deployments", "recipes", "tiers", "tasks")
_COUNTS = ("requests", "ok", "failed", "cancelled", "refused")
_TOKENS = ("prompt_tokens", "cached_tokens", "completion_tokens", "reasoning_tokens")


def run(args: argparse.Namespace) -> int:
    """Print usage or activity; 1 if the file or the log cannot be read."""
    try:
        config = named(args)
        if args.command == "activity":
            _activity(args, config)
        elif args.action == "backfill":
            _backfill(config)
        elif args.window in (None, "all"):
            _lifetime(args, config)
        elif args.window not in WINDOWS:
            complain(f"--window {args.window} is of --cost")
            return 2
        else:
            _window(args, config, args.window)
    except (Unusable, RecordsError) as error:
        return complain(str(error))
    except OSError as error:
        return complain(f"cannot read {error.filename}: {error.strerror}; check its permissions")
    return 0


def _activity(args: argparse.Namespace, config: Config) -> None:
    window: Window = args.window
    since = datetime.now(UTC) - timedelta(seconds=WINDOWS[window])
    recent: deque[Record] = deque(maxlen=args.limit)
    for record in iter_records(config.activity.path, since):
        recent.append(record)
    if args.json:
        sums = _sums(config, window)
        print_json({"window": window, **sums, "recent": [msgspec.to_builtins(r) for r in recent]})
        return
    if not recent:
        print(f"no request in the last {window} ({config.activity.path})")
        return
    heads = ("at", "client", "asked", "tier", "deployment", "tries", "status", "outcome",
             "ttft ms", "ms", "tokens", "tok/s")  # fmt: skip
    print_table(heads, [_record_row(r) for r in recent])
    print()
    _print_sums(_sums(config, window))


def _record_row(r: Record) -> tuple[str, ...]:
    asked = f"task/{r.task}" if r.task else r.requested_model
    tokens = f"{_number(r.prompt_tokens)}+{_number(r.completion_tokens)}"
    return (
        r.at.replace("T", " ")[:19],
        r.client,
        asked or "-",
        r.tier or "-",
        r.deployment or "-",
        str(len(r.attempts)),
        str(r.status),
        r.outcome if r.error is None else f"{r.outcome}: {r.error}",
        _number(r.ttft_ms),
        _number(r.duration_ms),
        f"~{tokens}" if r.estimated else tokens,
        _number(r.tok_s),
    )


def _window(args: argparse.Namespace, config: Config, window: Window) -> None:
    sums = _sums(config, window)
    if args.json:
        print_json({"window": window, **sums})
    else:
        _print_sums(sums)


def _sums(config: Config, window: Window) -> dict[str, Any]:
    """The window's sums, made from the log just as the gateway makes its own."""
    now = time.time()
    rollups = RollUps()
    for record in iter_records(config.activity.path):
        ended = seconds(record.at) + record.duration_ms / 1000
        if now - WINDOWS["24h"] <= ended <= now + 60:
            totals = Totals()
            totals.add(record)
            tier = config.tiers.get(record.group or "") or record.tier
            rollups.add(int(ended) // 60, key_of(record, tier), totals)
    return rollups.read(window, now)


def _print_sums(sums: Mapping[str, Any]) -> None:
    heads = ("by", "name", *_COUNTS, *(t.replace("_tokens", "") for t in _TOKENS), "tok/s",
             "ttft p50", "ttft p95")  # fmt: skip
    rows = [
        (by, name, *_cells(part, (*_COUNTS, *_TOKENS, "avg_tok_s", "ttft_p50_ms", "ttft_p95_ms")))
        for by, name, part in _parts(sums)
    ]
    print_table(heads, rows, quiet=1)


def _parts(sums: Mapping[str, Any]) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    for dimension in _DIMENSIONS:
        for name, part in sums.get(dimension, {}).items():
            yield dimension.removesuffix("s"), name, part
    yield "all", "-", sums["total"]


def _cells(part: Mapping[str, Any], keys: Sequence[str]) -> Iterator[str]:
    return (_number(part.get(key)) for key in keys)


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def _lifetime(args: argparse.Namespace, config: Config) -> None:
    path = usage_path(config.activity.path)
    try:
        book = read_book(path)
    except ValueError as error:
        raise Unusable(
            f"{path} is damaged ({error}); the next start of the gateway counts anew from the log"
        ) from error
    data = (book or Book()).as_data()
    if args.json:
        print_json(data)
        return
    if book is None:
        print(f"nothing was counted yet: there is no {os.path.relpath(path)}")
        return
    print(f"since {data.get('since') or '-'}, saved {data.get('updated_at') or '-'}")
    heads = ("by", "name", *(c for c in _COUNTS if c != "ok"),
             *(t.replace("_tokens", "") for t in _TOKENS))  # fmt: skip
    keys = (*(c for c in _COUNTS if c != "ok"), *_TOKENS)
    rows = [(by, name, *_cells(part, keys)) for by, name, part in _ledgers(data)]
    print_table(heads, rows, quiet=1)


def _ledgers(data: Mapping[str, Any]) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    """The days first, as they came, then the parts of the whole."""
    for day, ledger in data.get("days", {}).items():
        yield "day", day, ledger["total"]
    yield from _parts(data.get("lifetime", data))


def _backfill(config: Config) -> None:
    """Tell older days apart by who served, and say of each day what was done."""
    usage = Usage(config.activity.path, tier_of=lambda group: config.tiers.get(group))
    usage.start()
    try:
        done = usage.backfill()
        usage.save()
        days = usage.book().days
    finally:
        usage.close()
    if done:
        print_table(("day", "requests", "told apart before", "now", ""), [_done(d) for d in done])
    rest = sum(ledger.total.requests - ledger.attributed().requests for ledger in days.values())
    print(
        f"{sum(one.taken for one in done)} of {len(days)} days counted anew; "
        f"{rest} requests cannot be told apart: the log does not reach them"
    )


def _done(one: Recounted) -> tuple[str, ...]:
    what = "from the log" if one.taken else "left as it was"
    return (one.day, str(one.requests), str(one.before), str(one.now), what)
