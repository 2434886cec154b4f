"""The arguments of `gateway usage`, which cli_records, cli_ledger and cli_prices carry out."""

from __future__ import annotations

import argparse
import re
from datetime import date
from decimal import Decimal

USAGE = """Tokens and requests: by window from the activity log, or (no --window) since it began.
With --cost: local tokens beside what the cloud would have charged for them."""
_BACKFILL = """Tell the tokens of older days apart by recipe, as far as the activity log reaches.
Twice is as good as once. The gateway must not run: it keeps the counters."""
_PRICE = """Set what the cloud charges for a million tokens, in dollars. Days before --from keep
their price; an override holds for its part of the calendar, whatever the history says."""

# (option, where it stands in the file's gateway_settings.ledger, what it is)
FILES = (
    ("--recipes", "recipes", "folder of recipe files"),
    ("--roi-profiles", "roi_profiles", "cloud models"),
    ("--prices", "prices", "their prices"),
    ("--tags", "tags", "recipe, deployment or model group -> ROI profile"),
)


def arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `usage`, and its two commands."""
    parser.add_argument(
        "--window",
        choices=("1h", "24h", "7d", "30d", "all"),
        help="7d and 30d are of --cost: whole days, UTC (all)",
    )
    parser.add_argument("--cost", action="store_true", help="what the cloud would have charged")
    parser.add_argument(
        "--by", choices=("roi", "recipe", "model", "day"), default="roi", help="of --cost (roi)"
    )
    _files(parser)
    actions = parser.add_subparsers(dest="action", metavar="[backfill | price]")
    backfill = actions.add_parser("backfill", help="tell older days apart", description=_BACKFILL)
    price = actions.add_parser("price", help="set a price", description=_PRICE)
    for action in (backfill, price):
        # Only where it is given: a default here would win over `gateway usage -c FILE price`.
        action.add_argument("-c", "--config", dest="file", default=argparse.SUPPRESS)
    _files(price, default=argparse.SUPPRESS)
    price.add_argument("roi", metavar="ROI_ID", help="an ROI profile")
    price.add_argument("amount", type=_amount, metavar="in=DOLLARS")
    price.add_argument("other", type=_amount, metavar="out=DOLLARS")
    when = price.add_mutually_exclusive_group()
    when.add_argument("--from", dest="since", type=_day, metavar="DAY", help="(today, UTC)")
    when.add_argument("--override", type=_override, metavar="GRAIN=KEY", help="month=2026-11")


def _files(parser: argparse.ArgumentParser, default: str | None = None) -> None:
    for option, name, what in FILES:
        parser.add_argument(
            option, metavar="PATH", default=default, help=f"{what}; wins over ledger.{name}"
        )


def _amount(text: str) -> tuple[str, Decimal]:
    """Plain digits: what is written here can be read again from any JSON."""
    match = re.fullmatch(r"(in|out)=(\d{1,9}(?:\.\d{1,6})?)", text, re.ASCII)
    if match is None:
        raise argparse.ArgumentTypeError(
            f"'{text}' is no price: in=DOLLARS or out=DOLLARS, such as in=0.60"
        )
    return match[1], Decimal(match[2])


def _day(text: str) -> date:
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"'{text}' is no day, such as 2026-11-30") from None


def _override(text: str) -> tuple[str, str]:
    grain, _, key = text.partition("=")
    return grain, key
