"""The run as a table and as a receipt."""

from __future__ import annotations

import os
import platform
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bench.contenders import Contender
from bench.figures import (
    TARGETS,
    Figure,
    Figures,
    Target,
    chunks_s,
    cpu_us_per_chunk,
    cpu_us_per_request,
    p50_ms,
    rps,
)
from bench.rig import ROOT, Cores
from bench.rounds import Turn

# Heading, figure, digits after the point.
COLUMNS: tuple[tuple[str, Figure, int], ...] = (
    ("req/s 1", rps(1), 0),
    ("req/s 16", rps(16), 0),
    ("req/s 64", rps(64), 0),
    ("chunks/s 16", chunks_s(16), 0),
    ("chunks/s 64", chunks_s(64), 0),
    ("us/request", cpu_us_per_request, 0),
    ("us/chunk", cpu_us_per_chunk, 1),
    ("idle MB", lambda turn: turn.idle_mb, 0),
    ("start s", lambda turn: turn.start_s, 1),
)


def table(figures: Figures) -> str:
    """One row a contender, medians over the rounds; "-" where there is nothing to measure."""
    rows = [["", "added p50 ms", *(heading for heading, _, _ in COLUMNS)]]
    for name in figures.names:
        added = figures.added(name, "direct", p50_ms)
        cells = [_number(figures.middle(name, f), digits) for _, f, digits in COLUMNS]
        rows.append([name, _number(added, 2), *cells])
    return "\n".join(_aligned(rows))


def verdicts(figures: Figures) -> str:
    """One line a target: the value, the bound, and whether it is met."""
    rows = [["", "measured", "target", "", "aim", ""]]
    rows += [_verdict(target, target.measure(figures)) for target in TARGETS]
    return "\n".join(_aligned(rows))


def missed(figures: Figures) -> list[str]:
    """Names of the targets that were measured and not reached."""
    return [
        t.name
        for t in TARGETS
        if t.target is not None
        and (value := t.measure(figures)) is not None
        and not t.is_met(value, t.target)
    ]


def remarks(figures: Figures) -> list[str]:
    """What a reader must know before believing the table."""
    said = []
    for name in figures.names:
        spread = figures.spread(name, rps(64))
        if spread is not None and spread > 1.3:
            said.append(f"{name}: requests/s at 64 differ {spread:.1f} x between rounds: noise")
        bad = sum(m.seen.bad for turn in figures.of(name) for m in turn.cells)
        if bad:
            said.append(f"{name}: {bad} wrong answers, which are not in its figures")
    for turn in figures.turns:
        if turn.records is not None:
            counted = f"{turn.requests:,} requests, {turn.records:,} records"
            right = f"{turn.records_ok:,} of them ok"
            said.append(f"{turn.contender}, round {turn.round + 1}: {counted}, {right}")
    return said


def receipt(
    turns: Sequence[Turn], contenders: Iterable[Contender], cores: Cores, seconds: float
) -> dict[str, Any]:
    """Everything that was measured, where, and with which versions, as JSON-ready data."""
    figures = Figures(turns)
    return {
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "revision": revision(),
        "machine": machine(),
        "cores": asdict(cores),
        "seconds_per_cell": seconds,
        "versions": {c.name: c.version for c in contenders if c.version},
        "targets": [
            {"name": t.name, "value": t.measure(figures), "target": t.target, "aim": t.aim}
            for t in TARGETS
        ],
        "turns": [asdict(turn) for turn in turns],
    }


def machine() -> dict[str, Any]:
    """Enough to tell two machines apart, and a busy one from an idle one."""
    info = Path("/proc/cpuinfo").read_text().splitlines()
    models = [line.partition(":")[2].strip() for line in info if line.startswith("model name")]
    return {
        "cpu": models[0] if models else platform.machine(),
        "cores": os.cpu_count(),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "load_average": [round(load, 2) for load in os.getloadavg()],
    }


def revision() -> str:
    """The commit of this checkout, with a mark where it has changes; empty outside git."""
    command = ["git", "-C", str(ROOT), "describe", "--always", "--dirty"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError:
        return ""
    return done.stdout.strip()


def _number(value: float | None, digits: int) -> str:
    return "-" if value is None else f"{value:,.{digits}f}"


def _verdict(target: Target, value: float | None) -> list[str]:
    row = [target.name, "not measured" if value is None else f"{value:,.2f}{target.unit}"]
    for bound in (target.target, target.aim):
        if bound is None:
            row += ["", ""]
            continue
        row.append(f"{target.sense} {bound:g}{target.unit}")
        row.append("" if value is None else "met" if target.is_met(value, bound) else "MISSED")
    return row


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Columns of one width each: names to the left, the rest to the right."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return [
        "  ".join(
            [
                row[0].ljust(widths[0]),
                *(c.rjust(w) for c, w in zip(row[1:], widths[1:], strict=True)),
            ]
        )
        for row in rows
    ]
