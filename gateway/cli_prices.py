"""`gateway usage price`: what the cloud charges, from a day on or for a part of the calendar."""

from __future__ import annotations

import argparse
import sys
from datetime import UTC, datetime
from pathlib import Path

from common.problems import has_errors, in_order, render
from gateway.cli_files import Unusable, complain, ledger_files, named
from gateway.config.config import LedgerFiles
from gateway.ledger.price_file import read_prices, write_prices
from gateway.ledger.prices import (
    EXAMPLES,
    GRAINS,
    Override,
    Price,
    PriceList,
    from_day,
    is_key,
    overridden,
)
from gateway.ledger.profiles import read_profiles
from gateway.ledger.strict import did_you_mean
from gateway.records.lock import FileLock, RecordsError


def price(args: argparse.Namespace) -> int:
    """Set a price and say what holds now; 1 if a file is wrong, 2 for wrong arguments."""
    amounts = dict((args.amount, args.other))
    if amounts.keys() != {"in", "out"}:
        complain("a price is two amounts: in=DOLLARS and out=DOLLARS")
        return 2
    if (wrong := _wrong_override(args)) is not None:
        complain(wrong)
        return 2
    given = Price(amounts["in"], amounts["out"])
    try:
        files = ledger_files(args, named(args))
        print(f"{args.roi}: {_set(args, files, given)} ({files.prices})")
    except RecordsError:
        return complain("another process is writing the prices; run this again")
    except Unusable as error:
        return complain(str(error))
    except OSError as error:
        return complain(f"{error.filename}: {error.strerror}; check its permissions")
    return 0


def _wrong_override(args: argparse.Namespace) -> str | None:
    if args.override is None:
        return None
    grain, key = args.override
    if grain not in GRAINS:
        return f"an override is for a {', '.join(GRAINS)}, such as month=2026-11, not `{grain}`"
    if not is_key(grain, key):
        return f"a {grain} is written {EXAMPLES[grain]}, not `{key}`"
    return None


def _set(args: argparse.Namespace, files: LedgerFiles, given: Price) -> str:
    """Read, change and replace the file under a lock of its own; in words, what was set."""
    path = Path(files.prices)
    path.parent.mkdir(parents=True, exist_ok=True)
    lock = FileLock(path)
    lock.take()
    try:
        profiles, wrong = read_profiles(Path(files.roi_profiles))
        prices, _, bad = read_prices(path)
        if has_errors((*wrong, *bad)):
            print(render(in_order((*wrong, *bad))), file=sys.stderr)
            raise Unusable("nothing was changed: mend the errors first")
        if args.roi not in profiles:
            said = f"there is no ROI profile `{args.roi}` in {files.roi_profiles}"
            raise Unusable(said + did_you_mean(args.roi, profiles))
        changed, said = _changed(prices.get(args.roi, PriceList()), args, given)
        write_prices(path, {**prices, args.roi: changed})
    finally:
        lock.close()
    return said


def _changed(old: PriceList, args: argparse.Namespace, given: Price) -> tuple[PriceList, str]:
    amounts = f"in {given.in_per_m:f}, out {given.out_per_m:f} a million tokens"
    if args.override is not None:
        grain, key = args.override
        return overridden(old, Override(grain, key, given)), f"{amounts} for {grain} {key}"
    day = args.since or datetime.now(UTC).date()
    changed = from_day(old, given, day)
    later = next(span.until for span in changed.history if span.first == day)
    until = "" if later is None else f" until {later}, when another takes over"
    default = "; the default too, for days before" if old == PriceList() else ""
    return changed, f"{amounts} from {day}{until}{default}"
