"""The seam of two answers: what an event holds that can be joined, in each dialect, as data.

Pure, and wary: what has another shape than the dialect's is never joined.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from gateway.config.config import Dialect
from gateway.dialects import ASKS_FOR_USAGE

_MORE_THAN_TEXT = ("reasoning", "reasoning_content", "tool_calls", "function_call", "refusal")
# Events before the text: the client has those of the first answer.
_OPENINGS = frozenset({
    "message_start", "content_block_start",
    "response.created", "response.queued", "response.in_progress",
    "response.output_item.added", "response.content_part.added",
})  # fmt: skip
_ENDS = frozenset({
    "content_block_stop", "message_delta", "message_stop",
    "response.output_text.done", "response.content_part.done", "response.output_item.done",
    "response.completed", "response.incomplete",
})  # fmt: skip


class Identity:
    """What one answer calls itself: taken from its first events, and put into another's."""

    def __init__(self) -> None:
        self._names: dict[str, Any] = {}
        self._item: str | None = None  # Responses: the id of its one message
        self._number: int | None = None  # Responses: how far its events are counted

    def take(self, data: dict[str, Any]) -> None:
        """Note an event of the first answer."""
        inner = data.get("response")
        for key in ("id", "model", "created", "created_at"):
            for holder in (data, inner if isinstance(inner, dict) else {}):
                if key in holder:
                    self._names.setdefault(key, holder[key])
        item = data.get("item")
        names = [data.get("item_id"), item.get("id") if isinstance(item, dict) else None]
        self._item = self._item or next((n for n in names if isinstance(n, str)), None)
        if isinstance(number := data.get("sequence_number"), int):
            self._number = number

    def put(self, dialect: Dialect, data: dict[str, Any]) -> None:
        """Make an event of the second answer one of the first's."""
        if dialect in ASKS_FOR_USAGE:
            data |= self._names
        if dialect != "responses":
            return
        if self._number is not None:
            self._number += 1
            data["sequence_number"] = self._number
        items = [data.get("item")]
        if isinstance(inner := data.get("response"), dict):
            inner |= self._names
            items += inner["output"] if isinstance(inner.get("output"), list) else []
        for item in items:
            if self._item and isinstance(item, dict):
                item["id"] = self._item
        if self._item and "item_id" in data:
            data["item_id"] = self._item


def read(dialect: Dialect, data: dict[str, Any], *, second: bool = False) -> str | None:
    """The text of an event; None if it holds what cannot be carried on, or has ended."""
    if dialect == "messages":
        return _read_message(data, second=second)
    if dialect == "responses":
        return _read_response(data, second=second)
    if not (choices := data.get("choices")):
        return ""
    if not isinstance(choices, list) or len(choices) > 1 or not isinstance(choices[0], dict):
        return None
    choice = choices[0]
    if choice.get("index") or (choice.get("finish_reason") is not None and not second):
        return None  # one of several, or it had ended: there is nothing to carry on
    if dialect == "completions":
        return _text(choice.get("text"))
    delta = choice.get("delta") or {}
    if not isinstance(delta, dict) or any(delta.get(name) for name in _MORE_THAN_TEXT):
        return None
    return _text(delta.get("content"))


def _read_message(data: dict[str, Any], *, second: bool) -> str | None:
    kind = _kind(data)
    block, delta = data.get("content_block"), data.get("delta")
    if kind == "content_block_start":
        is_text = isinstance(block, dict) and block.get("type") == "text"
        return "" if is_text and not data.get("index") else None
    if kind == "content_block_delta":
        is_text = isinstance(delta, dict) and delta.get("type") == "text_delta"
        return _text(delta.get("text")) if is_text and isinstance(delta, dict) else None
    if kind in ("message_start", "ping"):
        return ""
    return "" if second and kind else None  # the first one had ended


def _read_response(data: dict[str, Any], *, second: bool) -> str | None:
    kind = _kind(data)
    if data.get("output_index") or data.get("content_index"):
        return None  # more than one message of one part
    if kind == "response.output_text.delta":
        return _text(data.get("delta"))
    if kind == "response.output_item.added":
        item = data.get("item")
        return "" if isinstance(item, dict) and item.get("type") == "message" else None
    if kind == "response.content_part.added":
        part = data.get("part")
        return "" if isinstance(part, dict) and part.get("type") == "output_text" else None
    return "" if kind in _OPENINGS or (second and kind in _ENDS) else None


def _text(value: object) -> str | None:
    """A text that is there or absent; None if something else stands in its place."""
    return value if isinstance(value, str) else "" if value is None else None


def is_opening(dialect: Dialect, data: dict[str, Any]) -> bool:
    """True for events, once read, that the client has had from the first answer."""
    if dialect not in ASKS_FOR_USAGE:
        return _kind(data) in _OPENINGS
    if not (choices := data.get("choices")) or choices[0].get("finish_reason") is not None:
        return False
    return dialect == "chat" and not (choices[0].get("delta") or {}).get("content")


def is_end(dialect: Dialect, data: dict[str, Any]) -> bool:
    """True for events, once read, that follow the text."""
    if dialect not in ASKS_FOR_USAGE:
        return _kind(data) in _ENDS
    return any(c.get("finish_reason") is not None for c in data.get("choices") or ())


def _kind(data: dict[str, Any]) -> str:
    kind = data.get("type")
    return kind if isinstance(kind, str) else ""


def set_text(data: dict[str, Any], text: str) -> None:
    """Another text in an event that has one."""
    if data.get("type") == "content_block_delta":
        data["delta"]["text"] = text
        return
    if data.get("type") == "response.output_text.delta":
        data["delta"] = text
        return
    choice = data["choices"][0]
    if choice.get("text"):
        choice["text"] = text
    else:
        choice["delta"] = {**choice["delta"], "content": text}
        choice["delta"].pop("role", None)


def events(data: bytes) -> Iterator[bytes]:
    """Whole events, each with its blank line; see sse.Scanner."""
    normal = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    yield from (event + b"\n\n" for event in normal.split(b"\n\n") if event.strip())


def decoded(event: bytes) -> dict[str, Any] | None:
    """An event's object, or None: a comment, the terminator."""
    lines = [line[5:] for line in event.split(b"\n") if line.startswith(b"data:")]
    try:
        data = json.loads(b"\n".join(lines))
    except (ValueError, RecursionError):
        return None
    return data if isinstance(data, dict) else None
