"""run/prices.json: what the cloud asks, by ROI id, with the day each price took effect.

Host-local: prices change, and they are nobody's business in git. The gateway's ledger reads and
writes the same file, under the same lock: `gateway usage price`.

    {"ROI_ID": {"default": {"in_per_m", "out_per_m"},
                "history": [{"from", "to", "in_per_m", "out_per_m"}],
                "overrides": [{"grain", "key", "in_per_m", "out_per_m"}]}}
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

import msgspec

from serving.errors import Unusable
from serving.recipes.edit import read_text, write_text

FILE: Final = Path("run/prices.json")
_ENCODER: Final = msgspec.json.Encoder(decimal_format="number")  # 0.00001 and not 1e-05


def with_price(
    prices: Mapping[str, Any], roi_id: str, *, in_per_m: Decimal, out_per_m: Decimal, today: str
) -> dict[str, Any]:
    """The prices with this one from `today` on; the one that held ends then. Pure.

    What earlier days cost does not change. It holds until the next entry that is there already,
    and corrects one of the very same day. The first price of all is the default too.
    """
    price = {"in_per_m": in_per_m, "out_per_m": out_per_m}
    known = prices.get(roi_id) or {}
    history = list(known.get("history") or ())
    default = known.get("default") or (None if history else price)
    later = min((row["from"] for row in history if row["from"] > today), default=None)
    kept = [_ended(row, today) for row in history if row["from"] < today]
    kept += [row for row in history if row["from"] > today]
    kept.append({"from": today, "to": later, **price})
    entry = {
        "default": default,
        "history": sorted(kept, key=lambda row: str(row["from"])),
        "overrides": known.get("overrides") or [],
    }
    return {**prices, roi_id: entry}


def _ended(row: Mapping[str, Any], today: str) -> dict[str, Any]:
    """An earlier entry: it holds no longer than until today."""
    until = row.get("to")
    return {**row, "to": today if until is None or until > today else until}


def read_prices(path: Path) -> dict[str, Any]:
    """The file's data; nothing where there is none yet. Raises Unusable for another file."""
    if not path.exists():
        return {}
    try:
        data = json.loads(read_text(path), parse_float=Decimal)
    except json.JSONDecodeError as error:
        raise Unusable(f"{path} is not JSON: {error}") from error
    if not isinstance(data, dict) or not all(_is_entry(entry) for entry in data.values()):
        raise Unusable(f"{path} must be a mapping of ROI ids to prices")
    return data


def _is_entry(entry: Any) -> bool:
    rows = entry.get("history") or [] if isinstance(entry, dict) else None
    return isinstance(rows, list) and all(
        isinstance(row, dict) and isinstance(row.get("from"), str) for row in rows
    )


def write_prices(path: Path, prices: Mapping[str, Any]) -> None:
    """The file by atomic replace. Raises Unusable."""
    write_text(path, msgspec.json.format(_ENCODER.encode(prices), indent=2).decode() + "\n")


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """The right to change the file, against whoever else changes it. Raises Unusable."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(f"{path}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise Unusable(f"cannot write {path}: {error.strerror or error}") from error
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError as error:
        raise Unusable(f"another process is writing {path}: run this again") from error
    finally:
        os.close(handle)
