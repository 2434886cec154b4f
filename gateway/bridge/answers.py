"""From a call to an answer in the client's dialect: who translates what.

chat          the direct way (its own bytes where the provider speaks OpenAI), else plain
completions   plain        embeddings   plain        rerank   plain
messages      Anthropic's own bytes, the direct way; else chat, translated (repair.py)
responses     a provider that speaks it: plain; else chat, translated
count_tokens  Anthropic is asked; else an estimate by the library's tokeniser
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from gateway.bridge import direct, plain, surface
from gateway.bridge.call import Call
from gateway.bridge.direct import Direct
from gateway.bridge.named import split
from gateway.bridge.repair import Repair, Unfinished, whole
from gateway.bridge.sse import event
from gateway.dialects import DONE_EVENT
from gateway.errors import BadRequest
from gateway.http1.client import Response

_decode = msgspec.json.Decoder(dict[str, Any]).decode
_encode = msgspec.json.encode
Fields = dict[str, Any]
Pieces = AsyncIterator[bytes]


@dataclass(frozen=True, slots=True)
class Whole:
    """An answer that is no stream."""

    body: bytes


@dataclass(frozen=True, slots=True)
class Stream:
    """A stream in the client's dialect. `close` ends the provider's connection at once."""

    pieces: Pieces
    close: Callable[[], Awaitable[None]]


class Answers:
    """Answers calls. One serves the process."""

    def __init__(self, direct_way: Direct) -> None:
        self._direct = direct_way

    async def __call__(self, call: Call) -> Whole | Stream:
        """The answer as soon as it has begun. Raises what failures.told() can tell."""
        fields = _decode(call.body)
        named, extras = split(call.dialect, fields, fixed=call.fixed, drop=call.drop_params)
        match call.dialect:
            case "chat":
                return await self._chat(call, named, extras)
            case "completions":
                return await _passed(await plain.completion(call, named, extras), DONE_EVENT)
            case "embeddings":
                return await _passed(await plain.embedding(call, named, extras))
            case "rerank":
                return await _passed(await plain.rerank(call, named, extras))
            case "messages":
                return await self._message(call, named, extras)
            case "responses":
                return await self._response(call, named, extras)
            case "count_tokens":
                return await self._count(call, named | extras)

    async def _chat(self, call: Call, named: Fields, extras: Fields) -> Whole | Stream:
        if not direct.is_openai(call):
            said = await self._ask(call, named, extras)
            if isinstance(said, dict):
                return Whole(_encode(said))
            return Stream(_chat_events(said.chunks), said.close)
        return await self._own_bytes(call, await self._direct.send(call, named, extras))

    async def _own_bytes(self, call: Call, response: Response) -> Whole | Stream:
        if not call.stream:
            parts = []
            while data := await response.read():
                parts.append(data)
            return Whole(b"".join(parts))
        return Stream(_read(response.read), _closing(response.abort))

    async def _message(self, call: Call, named: Fields, extras: Fields) -> Whole | Stream:
        if call.provider == "anthropic":
            return await self._own_bytes(call, await self._direct.message(call, named | extras))
        chat, names = surface.chat_of_messages({**named, "model": call.model})
        found = await self._ask(call, _asking(call, chat), extras)
        if isinstance(found, dict):
            return Whole(_encode(surface.message_of_chat(whole(found), names)))
        first, chunks = await _begun(found.chunks)
        events = surface.events_of_chat(_repaired(chunks), first.get("model") or call.model, names)
        return Stream(_named(events), found.close)

    async def _response(self, call: Call, named: Fields, extras: Fields) -> Whole | Stream:
        if named.get("previous_response_id"):
            raise BadRequest("previous_response_id needs an engine that stores responses itself")
        if not call.speaks_chat and surface.speaks_responses(call.provider, call.model):
            return await _passed(await plain.response(call, named, extras))
        body = {**named, "model": call.model}
        chat = surface.chat_of_responses(body, call.provider, stream=call.stream)
        for name in ("custom_llm_provider", "metadata", "reasoning_summary", "extra_headers"):
            chat.pop(name, None)
        found = await self._ask(call, _asking(call, chat), extras)
        if isinstance(found, dict):
            return Whole(_encode(surface.response_of_chat(whole(found), body)))
        first, chunks = await _begun(found.chunks)
        body["model"] = first.get("model") or call.model
        events = surface.response_events_of_chat(_repaired(chunks), body, call.provider)
        return Stream(_named(plain.dumped(events)), found.close)

    async def _count(self, call: Call, body: Fields) -> Whole | Stream:
        if call.provider == "anthropic":
            return await self._own_bytes(call, await self._direct.message(call, body))
        return await _estimate(call, body)

    async def _ask(self, call: Call, named: Fields, extras: Fields) -> Fields | _Chunks:
        """A chat call, whichever way: OpenAI's object, or its chunks."""
        if direct.goes(call):
            response = await self._direct.send(call, named, extras)
            if call.stream:
                return _Chunks(direct.chunks(call, response), _closing(response.abort))
            return await direct.whole(call, response, named)
        said = await plain.chat(call, named, extras)
        if not call.stream:
            return surface.plain(said)
        return _Chunks(plain.chunks(said), said.aclose)


@dataclass(frozen=True, slots=True)
class _Chunks:
    chunks: AsyncIterator[Fields]
    close: Callable[[], Awaitable[None]]


def _asking(call: Call, chat: Fields) -> Fields:
    """A translated chat request: streamed as the client asked, with usage."""
    chat.pop("model", None)
    asked = {k: v for k, v in chat.items() if v is not None}
    asked["stream"] = call.stream
    if call.stream:
        asked["stream_options"] = {"include_usage": True}
    return asked


async def _begun(chunks: AsyncIterator[Fields]) -> tuple[Fields, AsyncIterator[Fields]]:
    """The first chunk, and all of them: what is refused is refused before a status is sent."""
    nothing: Fields = {}
    first = await anext(chunks, nothing)

    async def all_of_them() -> AsyncIterator[Fields]:
        if first:
            yield first
        async for chunk in chunks:
            yield chunk

    return first, all_of_them()


async def _repaired(chunks: AsyncIterator[Fields]) -> AsyncIterator[Any]:
    repair = Repair()
    async for chunk in chunks:
        for each in repair.chunk(chunk):
            yield surface.new_chunk(**each)
    for each in repair.end():
        yield surface.new_chunk(**each)


async def _chat_events(chunks: AsyncIterator[Fields]) -> Pieces:
    """Chunks as a chat client reads them: usage last, in an event of its own."""
    usage, finished = None, False
    async for chunk in chunks:
        usage = chunk.pop("usage", None) or usage
        choices = chunk.get("choices") or []
        finished = finished or any(c.get("finish_reason") for c in choices)
        if any(c.get("finish_reason") or c.get("delta") for c in choices):
            yield event(chunk)
    if not finished:
        raise Unfinished
    if usage is not None:
        yield event({**chunk, "choices": [], "usage": usage})
    yield DONE_EVENT


async def _named(events: AsyncIterator[Mapping[str, Any]]) -> Pieces:
    async for each in events:
        yield event(each, str(each["type"]))


async def _read(read: Callable[[], Awaitable[bytes]]) -> Pieces:
    while data := await read():
        yield data


async def _passed(said: Any, ending: bytes = b"") -> Whole | Stream:
    """What an entry point gave, in its own dialect: an object, or a stream of them or of bytes."""
    if not hasattr(said, "__aiter__"):
        return Whole(_encode(surface.plain(said)))

    async def pieces() -> Pieces:
        async for each in said:
            if isinstance(each, bytes):
                yield each
            else:
                data = surface.plain(each)
                yield event(data, data.get("type"))
        if ending:
            yield ending

    async def close() -> None:
        if hasattr(said, "aclose"):
            await said.aclose()

    return Stream(pieces(), close)


async def _estimate(call: Call, named: Fields) -> Whole:
    chat, _ = surface.chat_of_messages({**named, "model": call.model, "max_tokens": 1})
    tokens = await asyncio.to_thread(
        surface.count_locally, model=call.model, messages=chat["messages"], tools=chat.get("tools")
    )
    return Whole(_encode({"input_tokens": tokens}))


def _closing(abort: Callable[[], None]) -> Callable[[], Awaitable[None]]:
    async def close() -> None:
        abort()

    return close
