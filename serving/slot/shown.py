"""The control plane's answers as tables and lines for a person."""

from __future__ import annotations

from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text


def status(found: dict[str, Any]) -> RenderableType:
    """What is loaded, who waits, what failed."""
    rows = Table(box=None, show_header=False, pad_edge=False)
    rows.add_row("slot", found["slot"])
    rows.add_row("phase", _phase(found))
    if found["recipe"]:
        rows.add_row("recipe", f"{found['recipe']} ({found['served_name']}, :{found['port']})")
    rows.add_row("running", f"{found['leases']} requests")
    for each in found["waiting"]:
        said = f"{each['count']} for {each['recipe']}, the longest {each['longest_s']:.0f} s"
        rows.add_row("waiting", said)
    memory = found["memory"]
    if "available_gib" in memory:
        said = f"{memory['available_gib']:.1f} of {memory['total_gib']:.1f} GiB available"
        rows.add_row("memory", said + (", LOW" if memory["verdict"] == "low" else ""))
    parts: list[RenderableType] = [rows]
    for id_, failure in found["failures"].items():
        again = f", again in {failure['retry_in_s']:.0f} s" if failure["retry_in_s"] else ""
        parts.append(Text(f"{id_} failed {failure['count']} times{again}: {failure['reason']}"))
    return Group(*parts)


def _phase(found: dict[str, Any]) -> str:
    said = str(found["phase"])
    if load := found["progress"]:
        said += f", {load['elapsed_s']:.0f} of about {load['expected_s']:.0f} s"
    if found["target"]:
        said += f", then {found['target']}"
    return said + (f" ({found['reason']})" if found["reason"] else "")


def recipes(found: dict[str, Any]) -> RenderableType:
    """One row a recipe."""
    table = Table(box=None, pad_edge=False)
    for title in ("", "id", "engine", "tier", "lifecycle", "serves", "port", "context"):
        table.add_column(title, justify="right" if title in ("port", "context") else "left")
    for each in found["recipes"]:
        mark = "*" if each["loaded"] else ("" if each["enabled"] else "-")
        names = ("id", "engine", "tier", "lifecycle", "served_name", "port", "ctx")
        table.add_row(mark, *(str(each[name]) for name in names))
    notes = [Text("* loaded   - not enabled on this machine")]
    notes += [Text(f"{id_}: enabled, but there is no such recipe") for id_ in found["missing"]]
    notes += [
        Text(f"{p['file']}:{p['line']}: {p['severity']}[{p['code']}]: {p['message']}")
        for p in found["problems"]
    ]
    return Group(table, *notes)


def bench(found: dict[str, Any]) -> str:
    """One line."""
    if found["error"]:
        return f"{found['recipe']}: {found['error']}"
    return (
        f"{found['recipe']}: first token after {found['ttft_ms']:.0f} ms, then "
        f"{found['tok_s']:.1f} tokens/s ({found['tokens']} tokens in {found['total_s']:.2f} s)"
    )
