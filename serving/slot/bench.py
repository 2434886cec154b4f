"""One small timed completion against what is loaded, to hold against the last time.

Not a benchmark: one request, one short prompt. The lease keeps the engine in the slot meanwhile.
"""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import AsyncIterator
from dataclasses import asdict, dataclass
from typing import Any, Final

import httpx
import structlog

from serving.slot import probe
from serving.slot.actor import Actor, Refused
from serving.slot.events import Ask

_log = structlog.get_logger("slot")
_TOKENS: Final = 128
_PROMPT: Final = "Count from one to fifty in words."
_WAIT_S: Final = 5.0
_LIMIT_S: Final = 300.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What was measured. Times from the request's first byte sent; tokens as the engine counts."""

    recipe: str
    at: float
    ttft_ms: float = 0.0
    total_s: float = 0.0
    tokens: int = 0
    tok_s: float = 0.0  # after the first token
    error: str = ""

    def as_data(self) -> dict[str, Any]:
        """JSON-ready."""
        return asdict(self)


async def measure(actor: Actor, recipe: str) -> Result:
    """Run it against the loaded recipe; nothing is loaded for it."""
    ask = Ask(id=secrets.token_hex(16), recipe=recipe, may_swap=False, wait_s=_WAIT_S)
    lease = await actor.lease(ask)
    if isinstance(lease, Refused):
        return Result(recipe=recipe, at=time.time(), error=lease.reason)
    try:
        result = await _timed(actor, lease.recipe)
    except (httpx.HTTPError, TimeoutError, ValueError) as error:
        said = f"{type(error).__name__}: {error}"
        result = Result(recipe=lease.recipe, at=time.time(), error=said)
    finally:
        actor.give_back(lease.id)
    _log.info("bench", **result.as_data())
    return result


async def _timed(actor: Actor, id_: str) -> Result:
    recipe = actor.shelf.last(id_)
    if recipe is None:
        raise ValueError(f"there is no recipe {id_} any more")
    target = actor.room.target(recipe)
    body = {
        "model": target.served_name,
        "messages": [{"role": "user", "content": _PROMPT}],
        "max_tokens": _TOKENS,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    began, first, tokens, pieces = time.monotonic(), 0.0, 0, 0
    async with probe.client(target, _LIMIT_S) as asks:
        async with asks.stream("POST", "/v1/chat/completions", json=body) as answer:
            if answer.status_code != 200:
                raise ValueError(f"the engine answers {answer.status_code}")
            async for event in _events(answer):
                pieces += _says_something(event)
                first = first or (time.monotonic() if pieces else 0.0)
                tokens = (event.get("usage") or {}).get("completion_tokens", tokens)
    ended = time.monotonic()
    if not pieces:
        raise ValueError("the engine said nothing")
    tokens = tokens or pieces
    return Result(
        recipe=id_,
        at=time.time(),
        ttft_ms=round((first - began) * 1000, 1),
        total_s=round(ended - began, 3),
        tokens=tokens,
        tok_s=round((tokens - 1) / max(ended - first, 1e-3), 1),
    )


async def _events(answer: httpx.Response) -> AsyncIterator[dict[str, Any]]:
    async for line in answer.aiter_lines():
        if line.startswith("data:") and not line.endswith("[DONE]"):
            event = json.loads(line[5:])
            if isinstance(event, dict):
                yield event


def _says_something(event: dict[str, Any]) -> bool:
    """A chunk with the role alone is no token."""
    choices = event.get("choices") or [{}]
    delta = choices[0].get("delta") or {}
    return any(delta.get(name) for name in ("content", "reasoning", "reasoning_content"))
