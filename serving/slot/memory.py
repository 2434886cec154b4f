"""Memory: what is free, how hard the kernel presses, and when the guard speaks or acts.

On a machine whose GPU shares the host's memory an engine that grows takes the machine with it.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

Verdict = Literal["well", "low"]
GIB = 1 << 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """One look. Pressure is the share of time, in percent, that tasks waited for memory."""

    available_gib: float
    total_gib: float
    some_avg10: float | None  # None: this kernel does not count pressure
    full_avg10: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Floor:
    """Below `low_gib`, or above `pressure_full` percent, memory is low."""

    low_gib: float
    pressure_full: float


def look(proc: Path) -> Memory | None:
    """Memory now, by `meminfo` and `pressure/memory` under `proc`; None where it cannot be read."""
    try:
        sizes = _sizes((proc / "meminfo").read_text())
    except OSError:
        return None
    if "MemAvailable" not in sizes:
        return None
    try:
        waits = _averages((proc / "pressure/memory").read_text())
    except OSError:
        waits = {}
    return Memory(
        available_gib=sizes["MemAvailable"] / GIB,
        total_gib=sizes.get("MemTotal", 0) / GIB,
        some_avg10=waits.get("some"),
        full_avg10=waits.get("full"),
    )


def judge(memory: Memory, floor: Floor) -> Verdict:
    """Low by what is free, or by how long tasks stand still for memory."""
    if memory.available_gib < floor.low_gib:
        return "low"
    if memory.full_avg10 is not None and memory.full_avg10 > floor.pressure_full:
        return "low"
    return "well"


def _sizes(text: str) -> dict[str, int]:
    """`meminfo`: bytes by name."""
    rows = (line.partition(":") for line in text.splitlines())
    values = ((name, rest.split()) for name, _, rest in rows)
    return {name: int(rest[0]) * 1024 for name, rest in values if rest and rest[0].isdigit()}


def _averages(text: str) -> dict[str, float]:
    """`pressure/memory`: avg10 of `some` and of `full`."""
    found = {}
    for line in text.splitlines():
        kind, *fields = line.split()
        for field in fields:
            name, _, value = field.partition("=")
            if name == "avg10":
                found[kind] = float(value)
    return found
