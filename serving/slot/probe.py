"""Is the engine ready? By its own health page, by the model it lists, by one small completion.

A status alone proves nothing: a model list may answer while the weights load, a web program may
say 200 to every path, and the engine before this one may still hold the port.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import httpx

from serving.engines.engine import Probe

PAUSE_S: Final = 0.25  # between two looks
_QUICKLY_S: Final = 0.05  # for the first second: small models are there at once
_WRONG_S: Final = 2.0  # an engine may list its file's name before its own
_SMOKE: Final = "Answer with the word ok."
_SMOKE_TOKENS: Final = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """What must answer, where, and as which model."""

    host: str
    port: int
    served_name: str
    probe: Probe
    key: str | None = None

    @property
    def url(self) -> str:
        """Without the path."""
        return f"http://{self.host}:{self.port}"


class NotReady(Exception):
    """It does not serve yet; the message says what was seen."""


class Wrong(NotReady):
    """What answers is not this engine, or not its model: waiting longer does not help."""


def client(target: Target, timeout_s: float = 5.0) -> httpx.AsyncClient:
    """A client for this engine. A proxy of the user's shell does not stand before loopback."""
    headers = {} if target.key is None else {"Authorization": f"Bearer {target.key}"}
    return httpx.AsyncClient(
        base_url=target.url, headers=headers, trust_env=False, timeout=timeout_s
    )


async def until_ready(
    target: Target, said: Callable[[str], None], stranger: Callable[[], str | None]
) -> None:
    """Return once health, model and a smoke completion are well; `said` gets what is seen.

    `stranger` names a process that holds the port and is not of this start. Raises Wrong. The
    caller sets the limit of time, and watches the process.
    """
    began, wrong_since = time.monotonic(), None
    async with client(target) as asks:
        while True:
            try:
                await look(asks, target)
                if other := stranger():
                    raise Wrong(f"port {target.port} is held by {other}, not by this engine")
                return await smoke(asks, target)
            except Wrong as seen:
                wrong_since = wrong_since or time.monotonic()
                if time.monotonic() - wrong_since > _WRONG_S:
                    raise
                said(str(seen))
            except NotReady as seen:
                wrong_since = None
                said(str(seen))
            soon = time.monotonic() - began < 1.0
            await asyncio.sleep(_QUICKLY_S if soon else PAUSE_S)  # it tells nobody of its progress


async def look(asks: httpx.AsyncClient, target: Target) -> None:
    """One look at health and at the model's name, without a completion. Raises NotReady."""
    probe = target.probe
    if probe.expects != "models":
        health = await _get(asks, probe.path)
        if not _healthy(health, probe.expects):
            raise NotReady(f"{probe.path}: {_seen(health)}")
    models = await _get(asks, probe.models_path)
    names = _names(models)
    if names is None:
        raise NotReady(f"{probe.models_path}: {_seen(models)}")
    if target.served_name not in names:
        raise Wrong(
            f"port {target.port} serves {', '.join(names) or 'no model'}, "
            f"not {target.served_name}: another engine, or a wrong served_name"
        )


async def smoke(asks: httpx.AsyncClient, target: Target) -> None:
    """One small completion; NotReady where it is no completion. It may take as long as it takes."""
    body = {
        "model": target.served_name,
        "messages": [{"role": "user", "content": _SMOKE}],
        "max_tokens": _SMOKE_TOKENS,
        "temperature": 0,
    }
    path = "/v1/chat/completions"
    try:
        answer = await asks.post(path, json=body, timeout=None)
    except httpx.HTTPError as error:
        raise NotReady(f"{path}: {type(error).__name__}") from error
    choices = _json(answer).get("choices")
    if answer.status_code != 200 or not isinstance(choices, list) or not choices:
        raise NotReady(f"the smoke completion failed: {_seen(answer)}")


async def _get(asks: httpx.AsyncClient, path: str) -> httpx.Response:
    try:
        return await asks.get(path)
    except httpx.HTTPError as error:
        raise NotReady(f"{path}: {type(error).__name__}") from error


def _healthy(answer: httpx.Response, expects: str) -> bool:
    if answer.status_code != 200:
        return False
    if expects == "empty-200":
        # Some say a word; a page for people is another program's.
        return not answer.content.lstrip().startswith(b"<")
    return _json(answer).get("status") == "ok"


def _names(answer: httpx.Response) -> list[str] | None:
    """The ids of a model list; None where it is none."""
    rows = _json(answer).get("data")
    if answer.status_code != 200 or not isinstance(rows, list):
        return None
    return [str(row.get("id")) for row in rows if isinstance(row, dict)]


def _json(answer: httpx.Response) -> dict[str, Any]:
    try:
        data = answer.json()
    except (ValueError, UnicodeDecodeError):
        return {}
    return data if isinstance(data, dict) else {}


def _seen(answer: httpx.Response) -> str:
    """What came, in a few words: the kind of the body decides, and an error's message."""
    kind = answer.headers.get("content-type", "").partition(";")[0] or "no type"
    error = _json(answer).get("error")
    message = error.get("message") if isinstance(error, dict) else error
    said = f" ({json.dumps(message)[:120]})" if message else ""
    return f"{answer.status_code} with {len(answer.content)} bytes of {kind}{said}"
