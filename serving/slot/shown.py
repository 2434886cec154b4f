"""The control plane's answers as lines and rows for a person."""

from __future__ import annotations

from typing import Any, Final

HEADS: Final = ("", "id", "engine", "tier", "lifecycle", "serves", "port", "context")
_COLUMNS: Final = ("id", "engine", "tier", "lifecycle", "served_name", "port", "ctx")


def status(found: dict[str, Any]) -> list[str]:
    """What is loaded, who waits, what failed: a line each."""
    rows = [("slot", found["slot"]), ("phase", _phase(found))]
    if found["recipe"]:
        rows.append(("recipe", f"{found['recipe']} ({found['served_name']}, :{found['port']})"))
    rows.append(("running", f"{found['leases']} requests"))
    for each in found["waiting"]:
        said = f"{each['count']} for {each['recipe']}, the longest {each['longest_s']:.0f} s"
        rows.append(("waiting", said))
    memory = found["memory"]
    if "available_gib" in memory:
        said = f"{memory['available_gib']:.1f} of {memory['total_gib']:.1f} GiB available"
        rows.append(("memory", said + (", LOW" if memory["verdict"] == "low" else "")))
    lines = [f"{name:<9}{value}" for name, value in rows]
    for id_, failure in found["failures"].items():
        again = f", again in {failure['retry_in_s']:.0f} s" if failure["retry_in_s"] else ""
        lines.append(f"{id_} failed {failure['count']} times{again}: {failure['reason']}")
    return lines


def _phase(found: dict[str, Any]) -> str:
    said = str(found["phase"])
    if load := found["progress"]:
        said += f", {load['elapsed_s']:.0f} of about {load['expected_s']:.0f} s"
    if found["target"]:
        said += f", then {found['target']}"
    return said + (f" ({found['reason']})" if found["reason"] else "")


def recipes(found: dict[str, Any]) -> list[tuple[str, ...]]:
    """One row a recipe, under HEADS."""
    return [(_mark(each), *(str(each[name]) for name in _COLUMNS)) for each in found["recipes"]]


def _mark(recipe: dict[str, Any]) -> str:
    if recipe["loaded"]:
        return "*"
    return "" if recipe["enabled"] else "-"


def notes(found: dict[str, Any]) -> list[str]:
    """What stands under the table of recipes."""
    lines = ["* loaded   - not enabled on this machine"]
    lines += [f"{id_}: enabled, but there is no such recipe" for id_ in found["missing"]]
    lines += [
        f"{p['file']}:{p['line']}: {p['severity']}[{p['code']}]: {p['message']}"
        for p in found["problems"]
    ]
    return lines


def bench(found: dict[str, Any]) -> str:
    """One line."""
    if found["error"]:
        return f"{found['recipe']}: {found['error']}"
    return (
        f"{found['recipe']}: first token after {found['ttft_ms']:.0f} ms, then "
        f"{found['tok_s']:.1f} tokens/s ({found['tokens']} tokens in {found['total_s']:.2f} s)"
    )
