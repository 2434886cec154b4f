"""`python -m tests.slot.real`: random requests for three models on one slot; who waited how long.

Each caller is a client of its own, streamed or not, and starts at a random moment of the run. The
engines are real llama.cpp servers with the scripted model; gateway and control plane are
processes. Exit 1 if a request was lost or answered by another model than the one it named.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from random import Random
from statistics import median
from typing import NamedTuple

import uvloop
from rich.console import Console
from rich.table import Table

from tests.slot.real.box import ANSWER, MODELS, Box, box


class Asked(NamedTuple):
    """One request: what it named, how long its answer took, and whether it was right."""

    model: str
    seconds: float
    right: bool


async def _ask(it: Box, model: str, streamed: bool, at_s: float) -> Asked:
    await asyncio.sleep(at_s)
    began = time.perf_counter()
    text = await (it.stream(model, "hi") if streamed else it.chat(model, "hi"))
    return Asked(model, time.perf_counter() - began, text == ANSWER)


def _memory_mb(pid: int) -> float:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * 4096 / 1e6


def _line(name: str, asked: Sequence[Asked], load_s: float | None) -> list[str]:
    times = sorted(each.seconds for each in asked)
    p99 = times[min(len(times) - 1, int(0.99 * len(times)))]
    shown = [f"{value:.2f}" for value in (median(times), p99, times[-1])]
    return [name, str(len(asked)), *shown, "-" if load_s is None else f"{load_s:.2f}"]


async def run(count: int, over_s: float, seed: int, residency_s: float) -> int:
    """Run it, print the table, and say 1 if anything was lost or wrong."""
    random = Random(seed)
    with tempfile.TemporaryDirectory() as folder:
        async with box(Path(folder), min_residency_s=residency_s) as it:
            assert it.control.process is not None
            pids = {"gateway": it.gateway.process.pid, "control plane": it.control.process.pid}
            await it.chat("one", "hi")
            before = {name: _memory_mb(pid) for name, pid in pids.items()}
            calls = [
                _ask(it, random.choice(MODELS), random.random() < 0.5, random.uniform(0, over_s))
                for _ in range(count)
            ]
            found = await asyncio.gather(*calls, return_exceptions=True)
            after = {name: _memory_mb(pid) for name, pid in pids.items()}
            loads = (await it.plane.status())["loads"]
            starts = json.loads((it.plane.run / "slot/state.json").read_text())["run"]
    answered = [each for each in found if isinstance(each, Asked)]
    lost = [each for each in found if isinstance(each, BaseException)]
    table = Table("model", "asked", "p50 s", "p99 s", "max s", "median load s")
    for name in MODELS:
        row = [each for each in answered if each.model == name]
        table.add_row(*_line(name, row, loads[name]["median_s"]))
    table.add_row(*_line("all", answered, None))
    console = Console(highlight=False)
    console.print(table)
    wrong = sum(not each.right for each in answered)
    said = (
        f"{len(answered)} answered, {len(lost)} lost, {wrong} wrong; {starts} starts of an engine"
    )
    console.print(f"{said} in {count} requests over {over_s:g} s")
    for name in pids:
        console.print(f"memory of the {name}: {before[name]:.1f} MB, then {after[name]:.1f} MB")
    for error in lost[:5]:
        console.print(f"lost: {error!r:.200}")
    return 1 if lost or wrong else 0


def main() -> int:
    """The exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.slot.real")
    parser.add_argument("--requests", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=20.0, help="they begin within so long")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--residency", type=float, default=0.0, help="min_residency_s of the slot")
    args = parser.parse_args()
    return uvloop.run(run(args.requests, args.seconds, args.seed, args.residency))


sys.exit(main())
