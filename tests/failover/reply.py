"""The correct reply, and what a caller's answer holds of it, in any dialect."""

from __future__ import annotations

from typing import Any

from tests.client import Reply

WORDS = tuple(f"word{n} " for n in range(60))
WHOLE = "".join(WORDS)
TOKENS = (11, 60)  # prompt and completion of a whole reply


def said(reply: Reply) -> str:
    """The text of an answer, streamed or not."""
    if reply.events:
        return reply.text
    data = reply.json
    if "choices" in data:
        choice = data["choices"][0]
        return str(choice.get("text") or (choice.get("message") or {}).get("content") or "")
    if "output" in data:
        parts = [p for item in data["output"] for p in item.get("content") or []]
        return "".join(str(p.get("text", "")) for p in parts)
    return "".join(str(block.get("text", "")) for block in data.get("content", []))


def _objects(reply: Reply) -> list[dict[str, Any]]:
    """The objects in an answer that may name a model or usage: its events, or its body."""
    data = [e.json for e in reply.events if e.data and not e.done] or [reply.json]
    inner = [d.get("response") or d.get("message") for d in data]
    return [d for d in (*data, *inner) if isinstance(d, dict)]


def model_of(reply: Reply) -> str | None:
    """The model that the answer names; None if it names none, or more than one."""
    names = {d["model"] for d in _objects(reply) if d.get("model")}
    return names.pop() if len(names) == 1 else None


def usage_of(reply: Reply) -> tuple[int, int] | None:
    """The last usage in the answer: prompt and completion tokens."""
    found = None
    for usage in (d["usage"] for d in _objects(reply) if d.get("usage")):
        before = found or (0, 0)
        prompt = usage.get("prompt_tokens", usage.get("input_tokens")) or before[0]
        found = (prompt, usage.get("completion_tokens", usage.get("output_tokens")) or before[1])
    return found


def finished(reply: Reply) -> bool:
    """Whether a stream holds a normal finish reason or a success terminator."""
    for data in _objects(reply):
        if any(c.get("finish_reason") for c in data.get("choices") or []):
            return True
        delta = data.get("delta")
        if isinstance(delta, dict) and delta.get("stop_reason"):
            return True
    return reply.done
