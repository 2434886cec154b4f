"""An OpenAI stream put in order, before it is translated to another dialect. Pure.

Engines differ in ways that the translation to Anthropic's or Responses' events does not survive:

    reasoning under `reasoning`, `reasoning_content` or both   `reasoning_content`, once
    tool calls that share an index, or have none               one index a call
    deltas of several calls in turn                            one call after the other
    several kinds of content in one chunk                      one chunk each
    a finish reason in the middle, twice, or with content      the last one, alone, at the end
    `stop` after tool calls, `tool_calls` after none           what the content says
    usage beside choices, or as a running total                the last one, after the end

Bytes that pass to a chat client are not touched: this stands on translated routes alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

Chunk = dict[str, Any]


class Unfinished(Exception):
    """The stream ended without a finish reason: the answer is not whole."""


class Calls:
    """Which call each delta of a tool call belongs to."""

    def __init__(self) -> None:
        self._by_id: dict[str, int] = {}
        self._by_index: dict[int, int] = {}  # the engine's index -> ours, of the latest call there
        self.count = 0

    def place(self, delta: dict[str, Any]) -> tuple[int, bool]:
        """Our index of its call, and whether the call begins here.

        1. A known id: that call.
        2. A new id: a new call, whatever the index.
        3. No id, an index that was seen: the latest call with it.
        4. No id, a new index or none with a name while no call is open: a new call.
        5. Neither: the last call goes on.
        """
        said, at = delta.get("id") or None, delta.get("index")
        if said in self._by_id:  # 1.
            return self._by_id[said], False
        if said is None and isinstance(at, int) and at in self._by_index:  # 3.
            return self._by_index[at], False
        if said is None and self.count and not isinstance(at, int):  # 5.
            return self.count - 1, False
        ours, self.count = self.count, self.count + 1  # 2. and 4.
        if said is not None:
            self._by_id[said] = ours
        if isinstance(at, int):
            self._by_index[at] = ours
        return ours, True


class Queue:
    """One call at a time: a content block that was closed cannot be opened again.

    The deltas of a later call wait until the arguments of the one before are whole JSON, or until
    the end. Most engines write one call after the other, and nothing waits.
    """

    def __init__(self) -> None:
        self._open: int | None = None
        self._said = b""
        self._held: dict[int, list[Chunk]] = {}

    def take(self, delta: Chunk) -> Iterator[Chunk]:
        """What may go now, with this delta or before it."""
        if self._open is None:
            self._open = delta["index"]
        self._held.setdefault(delta["index"], []).append(delta)
        yield from self._next(self._open)
        while len(self._held) > 1 and _is_json(self._said):
            del self._held[self._open]
            self._open, self._said = next(iter(self._held)), b""
            yield from self._next(self._open)

    def rest(self) -> Iterator[Chunk]:
        """What still waits at the end, call by call."""
        for index in tuple(self._held):
            yield from self._next(index)

    def _next(self, index: int) -> Iterator[Chunk]:
        ready, self._held[index] = self._held[index], []
        for delta in ready:
            self._said += delta["function"]["arguments"].encode()
            yield delta


class Repair:
    """One stream. `chunk` gives what to translate now, `end` what comes last."""

    def __init__(self) -> None:
        self._calls = Calls()
        self._queue = Queue()
        self._finish: str | None = None
        self._usage: dict[str, Any] | None = None
        self._frame: Chunk = {}

    def chunk(self, data: Chunk) -> Iterator[Chunk]:
        """The chunks to translate in place of this one; finish reason and usage are kept back."""
        if data.get("usage"):
            self._usage = data["usage"]
        choices = data.get("choices") or []
        if not self._frame:
            keys = ("id", "created", "model", "system_fingerprint", "service_tier")
            self._frame = {k: data[k] for k in keys if data.get(k)}
        if not choices:
            return
        choice = choices[0]
        self._finish = choice.get("finish_reason") or self._finish
        for delta in self._split(choice.get("delta") or {}):
            yield self._made(delta)

    def end(self) -> Iterator[Chunk]:
        """The finish reason, then usage. Raises Unfinished where the engine gave no reason."""
        if self._finish is None:
            raise Unfinished
        for call in self._queue.rest():
            yield self._made({"tool_calls": [call]})
        reason = _reason(self._finish, calls=self._calls.count > 0)
        yield self._made({}, reason)
        if self._usage is not None:
            yield {**self._made({}), "choices": [], "usage": self._usage}

    def _made(self, delta: dict[str, Any], finish: str | None = None) -> Chunk:
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        return {**self._frame, "object": "chat.completion.chunk", "choices": [choice]}

    def _split(self, delta: dict[str, Any]) -> Iterator[dict[str, Any]]:
        """One delta a kind of content: reasoning, then text, then each tool call."""
        reasoning = _reasoning(delta)
        blocks = delta.get("thinking_blocks")
        if reasoning or blocks:
            yield {
                "reasoning_content": reasoning,
                **({"thinking_blocks": blocks} if blocks else {}),
            }
        if delta.get("content"):
            yield {"content": delta["content"]}
        if delta.get("refusal"):
            yield {"refusal": delta["refusal"]}
        for call in delta.get("tool_calls") or ():
            for ready in self._queue.take(self._call(call)):
                yield {"tool_calls": [ready]}

    def _call(self, delta: dict[str, Any]) -> dict[str, Any]:
        index, begins = self._calls.place(delta)
        function = delta.get("function") or {}
        arguments = function.get("arguments") or ""
        if not begins:
            return {"index": index, "function": {"arguments": arguments}}
        return {
            "index": index,
            "id": delta.get("id") or f"call_{index}",
            "type": "function",
            "function": {"name": function.get("name"), "arguments": arguments},
        }


def whole(data: dict[str, Any]) -> dict[str, Any]:
    """The same for an answer that is no stream."""
    choices = []
    for choice in data.get("choices") or ():
        message = dict(choice.get("message") or {})
        message["reasoning_content"] = _reasoning(message)
        message.pop("reasoning", None)
        calls = [
            {**call, "id": call.get("id") or f"call_{n}", "type": "function"}
            for n, call in enumerate(message.get("tool_calls") or ())
        ]
        message["tool_calls"] = calls or None
        kept = {k: v for k, v in message.items() if v is not None}
        reason = _reason(choice.get("finish_reason") or "stop", calls=bool(calls))
        choices.append({**choice, "message": kept, "finish_reason": reason})
    return {**data, "choices": choices}


def _is_json(text: bytes) -> bool:
    try:
        msgspec.json.decode(text)
    except msgspec.DecodeError:
        return False
    return True


def _reasoning(delta: dict[str, Any]) -> str | None:
    return delta.get("reasoning_content") or delta.get("reasoning") or None


def _reason(said: str, *, calls: bool) -> str:
    """An agent runs its tools by this word alone, and waits for them by it."""
    if said in ("stop", "tool_calls", "function_call"):
        return "tool_calls" if calls else "stop"
    return said
