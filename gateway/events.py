"""What an event of a stream says, and where usage stands in a whole answer, in each dialect.

Shared by the relay and the bridge. Reading is strict about JSON and lenient about shapes: a field
with an unexpected type is read as absent, never refused, because bytes pass through.
"""

from __future__ import annotations

from typing import Any

import msgspec

from gateway.config.config import Dialect
from gateway.dialects import ASKS_FOR_USAGE
from gateway.records.record import Usage


class EventFacts(msgspec.Struct, gc=False):
    """What one event of a stream says."""

    content: bool = False  # text, reasoning, a refusal, or a tool's name or arguments
    speaking: tuple[int, ...] = ()  # choices that go on, and
    finished: tuple[int, ...] = ()  # choices that have a finish or stop reason now
    ends: bool = False  # the terminator: after it the answer is complete
    usage: Usage | None = None
    only_usage: bool = False  # nothing but usage, as an include_usage event
    error: bool = False


class _Function(msgspec.Struct, gc=False):
    name: str | None = None
    arguments: str | None = None


class _Tool(msgspec.Struct, gc=False):
    function: _Function | None = None


class _Delta(msgspec.Struct, gc=False):
    content: str | None = None
    reasoning: str | None = None
    reasoning_content: str | None = None
    refusal: str | None = None
    tool_calls: list[_Tool] | None = None
    function_call: _Function | None = None


class _Choice(msgspec.Struct, gc=False):
    index: int = 0
    delta: _Delta | None = None
    text: str | None = None
    finish_reason: str | None = None


class _Details(msgspec.Struct, gc=False):
    cached_tokens: int | None = None
    reasoning_tokens: int | None = None


class _Usage(msgspec.Struct, gc=False):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    prompt_tokens_details: _Details | None = None
    completion_tokens_details: _Details | None = None
    reasoning_tokens: int | None = None  # SGLang
    input_tokens: int | None = None
    output_tokens: int | None = None
    input_tokens_details: _Details | None = None
    output_tokens_details: _Details | None = None
    cache_read_input_tokens: int | None = None
    cache_creation_input_tokens: int | None = None


class _Chunk(msgspec.Struct, gc=False):
    choices: list[_Choice] | None = None
    usage: _Usage | None = None
    error: msgspec.Raw | None = None
    object: str | None = None


class _Body(msgspec.Struct):
    usage: _Usage | None = None


class _Inner(msgspec.Struct):
    usage: _Usage | None = None
    name: str | None = None
    type: str | None = None
    status: str | None = None


class _Typed(msgspec.Struct):
    """An event of the Responses or the Anthropic dialect."""

    type: str | None = None
    delta: msgspec.Raw | None = None
    usage: _Usage | None = None
    response: _Inner | None = None
    message: _Inner | None = None
    item: _Inner | None = None
    content_block: _Inner | None = None
    error: msgspec.Raw | None = None


class _BlockDelta(msgspec.Struct):
    text: str | None = None
    thinking: str | None = None
    partial_json: str | None = None
    stop_reason: str | None = None


_decode_chunk = msgspec.json.Decoder(_Chunk).decode
_BETWEEN = b"\n\ndata: "
_typed = msgspec.json.Decoder(_Typed)
_body = msgspec.json.Decoder(_Body)
_block_delta = msgspec.json.Decoder(_BlockDelta)
_inner = msgspec.json.Decoder(_Inner)
# The two commonest, made once: nobody changes facts after they were read.
NOTHING = EventFacts()
CONTENT = EventFacts(content=True, speaking=(0,))


def read_event(dialect: Dialect, data: bytes) -> EventFacts | None:
    """What an event's data says, or None if it is not JSON at all."""
    chat = dialect in ASKS_FOR_USAGE
    try:
        if chat:
            return _read_chunk(_decode_chunk(data))
        return _read_typed(_typed.decode(data))
    except msgspec.ValidationError:
        pass  # JSON of another shape, or broken further on
    except (msgspec.DecodeError, RecursionError):
        return None
    try:
        return _read_loose(chat, data)
    except (msgspec.DecodeError, RecursionError):
        return None


def read_events(data: bytes) -> list[EventFacts] | None:
    """What many events of a chat or completions stream say, if all are of the common form.

    That is `data: {...}` and a blank line, each: then they are cut apart in one step, at half the
    cost. None if one is not, which says nothing more: read them one by one.
    """
    if not (data.startswith(b"data: {") and data.endswith(b"}\n\n")):
        return None
    events = data[6:-2].split(_BETWEEN)
    # A line end inside the JSON would end the event's line: what follows is another field.
    if data.count(b"\n") != 2 * len(events) or b"\r" in data:
        return None
    try:
        many = [_decode_chunk(event) for event in events]
    except (msgspec.DecodeError, RecursionError):
        return None
    return [CONTENT if c.usage is None and _is_plain(c.choices) else _read_chunk(c) for c in many]


def _is_plain(choices: list[_Choice] | None) -> bool:
    """True for the common ones: some text of the only choice, which goes on."""
    if choices is None or len(choices) != 1:
        return False
    only = choices[0]
    delta = only.delta
    return (
        delta is not None and bool(delta.content) and only.finish_reason is None and not only.index
    )


def _read_chunk(chunk: _Chunk) -> EventFacts:
    usage, choices = chunk.usage, chunk.choices
    if usage is None and _is_plain(choices):
        return CONTENT
    if not choices:
        if chunk.object == "error" or (chunk.error is not None and bytes(chunk.error) != b"null"):
            return EventFacts(error=True)
        return NOTHING if usage is None else EventFacts(usage=_usage(usage), only_usage=True)
    spoke = [c.index for c in choices if c.text or (c.delta is not None and _has_content(c.delta))]
    finished = tuple(c.index for c in choices if c.finish_reason is not None)
    return EventFacts(
        content=bool(spoke),
        speaking=tuple(i for i in spoke if i not in finished),
        finished=finished,
        usage=None if usage is None else _usage(usage),
    )


def _has_content(delta: _Delta) -> bool:
    if delta.content or delta.reasoning or delta.reasoning_content or delta.refusal:
        return True
    calls = [t.function for t in delta.tool_calls] if delta.tool_calls else [delta.function_call]
    return any(f is not None and bool(f.name or f.arguments) for f in calls)


def _read_typed(event: _Typed) -> EventFacts:
    kind = event.type or ""
    inner = event.response or event.message
    usage = event.usage or (inner.usage if inner is not None else None)
    facts = EventFacts(usage=None if usage is None else _usage(usage))
    if kind.startswith("response."):
        facts.error = kind == "response.failed"
        facts.ends = kind in ("response.completed", "response.incomplete")
        facts.finished = (0,) if facts.ends else ()
        facts.content = (kind.endswith(".delta") and _is_text(event.delta)) or bool(
            kind == "response.output_item.added" and event.item is not None and event.item.name
        )
    elif kind in ("content_block_delta", "message_delta"):
        delta = _block_delta.decode(event.delta) if event.delta is not None else _BlockDelta()
        facts.content = bool(delta.text or delta.thinking or delta.partial_json)
        facts.finished = () if delta.stop_reason is None else (0,)
    elif kind == "content_block_start":
        facts.content = event.content_block is not None and bool(event.content_block.name)
    else:
        # Without a type it is an engine's own error, in the form that it uses for chat.
        untyped = not kind and event.error is not None and bytes(event.error) != b"null"
        facts.error = kind == "error" or untyped
        facts.ends = kind == "message_stop"
    return facts


def _is_text(delta: msgspec.Raw | None) -> bool:
    return delta is not None and bytes(delta)[:1] == b'"' and len(bytes(delta)) > 2


def _read_loose(chat: bool, data: bytes) -> EventFacts:
    """The same for an event with a field of an unexpected type, such as content as a list."""
    event = msgspec.json.decode(data)
    if not isinstance(event, dict):
        return NOTHING
    if event.get("error") is not None or event.get("type") == "error":
        return EventFacts(error=True)
    facts = EventFacts(usage=_loose_usage(event.get("usage")))
    if chat:
        given = event.get("choices")
        choices = [c for c in given if isinstance(c, dict)] if isinstance(given, list) else []
        facts.finished = tuple(i for i, c in enumerate(choices) if c.get("finish_reason"))
        facts.content = any(_loose_content(c) for c in choices)
        facts.only_usage = facts.usage is not None and not choices
    else:
        kind = str(event.get("type"))
        facts.ends = kind in ("message_stop", "response.completed", "response.incomplete")
        facts.finished = (0,) if facts.ends or kind == "message_delta" else ()
        facts.error = kind == "response.failed"
        facts.content = kind.endswith("delta") and kind != "message_delta"
    return facts


def _loose_content(choice: dict[str, Any]) -> bool:
    delta = choice.get("delta")
    said = [choice.get("text")]
    if isinstance(delta, dict):
        said += [value for key, value in delta.items() if key != "role"]
    return any(said)


def _loose_usage(value: object) -> Usage | None:
    if not isinstance(value, dict):
        return None
    numbers = {key: n for key, n in value.items() if type(n) is int}
    return _usage(msgspec.convert(numbers, _Usage, strict=False))


def _usage(usage: _Usage) -> Usage:
    """One shape for all: Anthropic's input_tokens leave out what came from the cache."""
    prompt, cached = usage.prompt_tokens, usage.cache_read_input_tokens
    if prompt is None and usage.input_tokens is not None:
        prompt = usage.input_tokens + (cached or 0) + (usage.cache_creation_input_tokens or 0)
    details_in = usage.prompt_tokens_details or usage.input_tokens_details
    details_out = usage.completion_tokens_details or usage.output_tokens_details
    output = usage.output_tokens if usage.completion_tokens is None else usage.completion_tokens
    return Usage(
        prompt_tokens=prompt,
        cached_tokens=details_in.cached_tokens if details_in is not None else cached,
        completion_tokens=output,
        reasoning_tokens=(
            details_out.reasoning_tokens if details_out is not None else usage.reasoning_tokens
        ),
    )


def read_body(body: bytes, content_type: bytes = b"application/json") -> Usage | None:
    """The usage of a whole answer. Raises msgspec.DecodeError if the body is not JSON.

    Raw numbers (vLLM's embeddings with encoding_format bytes) are an answer too, without usage.
    """
    if content_type.startswith(b"application/octet-stream"):
        return None
    try:
        usage = _body.decode(body).usage
    except msgspec.ValidationError:
        data = msgspec.json.decode(body)
        return _loose_usage(data.get("usage")) if isinstance(data, dict) else None
    return None if usage is None else _usage(usage)
