"""Reach and settings in a person's words, the same in every command."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from gateway.config.reach import Bound, Reach

NOTHING = "-"


def how_text(reach: Reach) -> str:
    """How a name reaches a deployment, such as "share 10/11" or "fallback 1 (burst)"."""
    inner = share_text(reach)
    match reach.how:
        case "direct":
            return "direct"
        case "share":
            return f"share {inner}"
        case "order":
            return f"order {reach.order}"
        case "fallback" | "context":
            word = "fallback" if reach.how == "fallback" else "if too long"
            return f"{word} {reach.depth} ({', '.join(filter(None, [reach.group, inner]))})"


def share_text(reach: Reach) -> str:
    """The part of a group's requests: "10/11", "1/3", or nothing where there is no choice."""
    if reach.share is None:
        return f"order {reach.order}" if reach.depth else ""
    if reach.weights is not None:
        return f"{reach.weights[0]:g}/{reach.weights[1]:g}" if reach.share < 1 else ""
    return f"1/{round(1 / reach.share)}" if reach.share < 1 else ""


def bound_text(bound: Bound | None) -> str:
    """The caps in words: "rpm 4, 1 parallel"; nothing where there is none."""
    if bound is None:
        return ""
    parts = [f"{name} {cap}" for name in ("rpm", "tpm") if (cap := getattr(bound, name))]
    if bound.max_parallel_requests is not None:
        parts.append(f"{bound.max_parallel_requests} parallel")
    return ", ".join(parts)


def shown(value: Any, *, hide_text: bool = False) -> str:
    """A setting as text; with `hide_text` only names, numbers and truth values."""
    match value:
        case None:
            return NOTHING
        case bool():
            return "true" if value else "false"
        case float():
            return f"{value:g}"
        case str():
            return "(text)" if hide_text else value
        case Mapping():
            parts = [f"{k}: {shown(v, hide_text=hide_text)}" for k, v in value.items()]
            return ", ".join(parts) or "nothing"
        case frozenset() | set():
            return shown(sorted(map(str, value)))
        case Iterable():
            return ", ".join(shown(v, hide_text=hide_text) for v in value) or "nothing"
        case _:
            return str(value)
