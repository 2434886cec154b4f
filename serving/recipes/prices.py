"""run/prices.json: what the cloud asks, by ROI id, with the day each price took effect.

Host-local: prices change, and they are nobody's business in git.

    {"ROI_ID": {"default": {"in_per_m", "out_per_m"},
                "history": [{"from", "to", "in_per_m", "out_per_m"}],
                "overrides": [{"grain", "key", "in_per_m", "out_per_m"}]}}
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from serving.errors import Unusable
from serving.recipes.edit import read_text, write_text

FILE: Final = Path("run/prices.json")


def with_price(
    prices: Mapping[str, Any], roi_id: str, *, in_per_m: float, out_per_m: float, today: str
) -> dict[str, Any]:
    """The prices with this one from `today` on; the one before it ends then. Pure."""
    price = {"in_per_m": in_per_m, "out_per_m": out_per_m}
    known = prices.get(roi_id) or {}
    history = [
        {**row, "to": today} if row.get("to") is None else row
        for row in known.get("history", [])
        if row.get("from") != today  # said twice on one day: the last counts
    ]
    history.append({"from": today, "to": None, **price})
    entry = {"default": price, "history": history, "overrides": known.get("overrides", [])}
    return {**prices, roi_id: entry}


def read_prices(path: Path) -> dict[str, Any]:
    """The file's data; nothing where there is none yet. Raises Unusable for another file."""
    if not path.exists():
        return {}
    try:
        data = json.loads(read_text(path))
    except json.JSONDecodeError as error:
        raise Unusable(f"{path} is not JSON: {error}") from error
    if not isinstance(data, dict) or not all(isinstance(v, dict) for v in data.values()):
        raise Unusable(f"{path} must be a mapping of ROI ids to prices")
    return data


def write_prices(path: Path, prices: Mapping[str, Any]) -> None:
    """The file by atomic replace. Raises Unusable."""
    write_text(path, json.dumps(prices, indent=2) + "\n")
