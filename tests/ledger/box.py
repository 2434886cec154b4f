"""A box whose ledger the tests read: its files, and a month of records."""

from __future__ import annotations

import json
import shutil
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from gateway.records.record import Record
from gateway.records.usage import Usage
from tests.records.build import record

HERE = Path(__file__).parent
PROFILES = """\
profiles:
  - id: glm-5.3
    name: GLM 5.3
    family: glm
    version: "5.3"
    params: 355B-A32B
    provider: zai
    model: glm-5.3
    match: [glm]
  - {id: qwen-35b, name: Qwen 35B, family: qwen, version: "3.6", params: 35B, provider: x, model: q}
"""
RECIPES = {
    "glm.yaml": "id: glm\nname: GLM 5.3 (vLLM)\nengine: vllm\nroi_profile: glm-5.3\n",
    "tiny.yaml": "id: tiny\nname: Tiny\nengine: llamacpp\n",
    "drafts/new.yaml": "id: new\nname: New\nengine: vllm\nlifecycle: draft\n",
    "pins/ds4.yaml": "source: {repo: example}\n",
}
PRICES: dict[str, Any] = {
    "glm-5.3": {
        "default": {"in_per_m": 0.5, "out_per_m": 2},
        "history": [
            {"from": "2026-09-10", "to": "2026-09-21", "in_per_m": 0.6, "out_per_m": 2.2},
            {"from": "2026-09-21", "to": None, "in_per_m": 0.7, "out_per_m": 2.4},
        ],
        "overrides": [{"grain": "day", "key": "2026-09-30", "in_per_m": 0.35, "out_per_m": 1.2}],
    },
    "qwen-35b": {"default": {"in_per_m": 0.1, "out_per_m": 0.4}},
}

SLOT = {"group": "active", "deployment": "slot-active", "cached_tokens": 0}
AUX = {"group": "aux-35b", "deployment": "aux", "tier": "auxiliary", "cached_tokens": 0}
EMB = {"group": "emb", "deployment": "emb-1", "tier": "auxiliary", "cached_tokens": 0}
BURST = {"group": "burst", "deployment": "burst-1", "cached_tokens": 0}


def build(folder: Path) -> None:
    """The box's files, before anything was served."""
    shutil.copy(HERE / "box.yaml", folder / "config.yaml")
    for name, text in RECIPES.items():
        write(folder / "serving/recipes" / name, text)
    write(folder / "serving/recipes/roi-profiles.yaml", PROFILES)
    write(folder / "run/prices.json", json.dumps(PRICES, indent=1))


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def on(number: int, day: str, prompt: int, completion: int, **settings: Any) -> Record:
    """A record of noon of a day."""
    arrived = datetime.fromisoformat(f"{day}T12:00:00").replace(tzinfo=UTC).timestamp()
    tokens = {"prompt_tokens": prompt, "completion_tokens": completion}
    return record(number, arrived=arrived, **(tokens | settings))


def month() -> list[Record]:
    """September: each kind of row that there is."""
    return [
        on(1, "2026-09-01", 1_000_000, 100_000, **SLOT, recipe="glm"),
        on(2, "2026-09-15", 2_000_000, 100_000, **SLOT, recipe="glm"),
        on(3, "2026-09-20", 1_000_000, 0, **SLOT | {"cached_tokens": 900_000}, recipe="glm"),
        on(4, "2026-09-21", 1_000_000, 500_000, **SLOT, recipe="glm", estimated=True),
        on(5, "2026-09-30", 4_000_000, 1_000_000, **SLOT, recipe="glm"),
        on(6, "2026-09-30", 5_000, 700, **SLOT, recipe="tiny"),
        on(7, "2026-09-15", 10_000, 1_000, **AUX),
        on(8, "2026-09-30", 20_000, 3_000, **AUX),
        on(9, "2026-09-30", 7_000, 0, **EMB),
        on(10, "2026-09-30", 50_000, 9_000, **BURST),
        on(11, "2026-09-30", 0, 0, **SLOT, recipe="tiny", outcome="failed"),
    ]


def count(folder: Path, records: list[Record], *, log: bool = True) -> None:
    """Count records as the gateway does: in usage.json, and (or not) in the log."""
    path = folder / "run/activity.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    usage = Usage(path, save_s=3600.0)
    usage.start()
    for one in records:
        usage.add(one)
    usage.close()
    if log:
        with path.open("ab") as file:
            file.writelines(msgspec.json.encode(one) + b"\n" for one in records)


def older(folder: Path) -> None:
    """usage.json as a release before recipes left it."""
    path = folder / "run/usage.json"
    data: dict[str, Any] = json.loads(path.read_text())
    del data["served_since"]
    for ledger in (data["lifetime"], *data["days"].values()):
        del ledger["served"]
        for tokens in (ledger["total"], *ledger["models"].values()):
            del tokens["estimated_tokens"]
    path.write_text(json.dumps(data))
