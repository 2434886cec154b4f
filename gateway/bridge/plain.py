"""The plain entry points: whole calls through the library, for every provider it knows.

Chat for providers that have no direct way, and every other dialect. Its retries, caches and
callbacks are off (surface.ONCE, surface.settle); the time limits are the gateway's own, so that
the library's never act first.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any

from gateway.bridge import surface
from gateway.bridge.call import Call
from gateway.bridge.repair import Unfinished

_NO_LIMIT_S = 24 * 3600.0


def _target(call: Call) -> dict[str, Any]:
    """Where a call goes and as whom: all of it the file's."""
    return {
        **call.params,
        **surface.ONCE,
        "model": f"{call.provider}/{call.model}",
        "api_base": surface.base_of(call.provider, call.api_base),
        "api_key": call.api_key,
        "timeout": _NO_LIMIT_S,
        "drop_params": call.drop_params,
    }


async def chat(call: Call, named: Mapping[str, Any], extras: Mapping[str, Any]) -> Any:
    """A chat answer, or a stream of chunks, as the library's objects."""
    return await surface.acompletion(**named, **extras, **_target(call))


async def completion(call: Call, named: Mapping[str, Any], extras: Mapping[str, Any]) -> Any:
    """A text completion, or its stream."""
    return await surface.atext_completion(**named, extra_body=dict(extras), **_target(call))


async def embedding(call: Call, named: Mapping[str, Any], extras: Mapping[str, Any]) -> Any:
    """Vectors."""
    return await surface.aembedding(**named, **extras, **_target(call))


async def rerank(call: Call, named: Mapping[str, Any], extras: Mapping[str, Any]) -> Any:
    """Documents in order."""
    return await surface.arerank(**named, **extras, **_target(call))


async def response(call: Call, named: Mapping[str, Any], extras: Mapping[str, Any]) -> Any:
    """A response of a provider that speaks that dialect itself."""
    return await surface.aresponses(**named, extra_body=dict(extras) or None, **_target(call))


async def dumped(stream: AsyncIterator[Any]) -> AsyncIterator[dict[str, Any]]:
    """A stream of the library's objects as JSON's."""
    async for each in stream:
        yield surface.plain(each)


async def chunks(stream: Any) -> AsyncIterator[dict[str, Any]]:
    """A chat stream of the library's. Raises Unfinished where it makes up a finish reason."""
    async for chunk in dumped(stream):
        made_up = getattr(stream, "received_finish_reason", "") is None
        if made_up and any(c.get("finish_reason") for c in chunk.get("choices", ())):
            raise Unfinished
        yield chunk
