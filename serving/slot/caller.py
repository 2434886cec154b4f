"""Who calls: the key, loopback, a bounded JSON object, and that the caller is still there."""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import ipaddress
import json
from collections.abc import Coroutine
from typing import Any, Final, TypeVar
from urllib.parse import urlsplit

from starlette.requests import ClientDisconnect, Request

from serving.slot.given import Given
from serving.slot.refusals import BadKey, BadRequest, Foreign

_BODY_BYTES: Final = 256 << 10
Result = TypeVar("Result")


def admit(http: Request, key: str | None) -> None:
    """With a key: whoever has it. Without: this machine, by its own name, from no web page."""
    if key is not None:
        given = http.headers.get("authorization", "").removeprefix("Bearer ")
        if not hmac.compare_digest(given.encode(), key.encode()):
            raise BadKey
        return
    origin = http.headers.get("origin")
    hosts = [urlsplit(f"//{http.headers.get('host', '')}").hostname]
    hosts += [] if origin is None else [urlsplit(origin).hostname]
    for name in hosts:
        if not _is_loopback(name):
            raise Foreign(name or "")


async def given(http: Request, *known: str) -> Given:
    """The JSON object of the body, bounded; an empty body is an empty object."""
    body = b""
    async for part in http.stream():
        body += part
        if len(body) > _BODY_BYTES:
            raise BadRequest(f"the body is above {_BODY_BYTES} bytes")
    try:
        data = json.loads(body or b"{}")
    except (ValueError, RecursionError) as error:
        raise BadRequest("the body is not JSON") from error
    return Given.read(data, known)


async def unless_gone(http: Request, work: Coroutine[Any, Any, Result]) -> Result:
    """The result of `work`, which is cancelled when the caller closes its connection."""
    doing = asyncio.create_task(work)
    leaving = asyncio.create_task(_left(http))
    try:
        await asyncio.wait({doing, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if leaving.done():
            raise ClientDisconnect
        return doing.result()
    finally:
        for task in (doing, leaving):
            task.cancel()
        await asyncio.gather(doing, leaving, return_exceptions=True)


async def _left(http: Request) -> None:
    while (await http.receive())["type"] != "http.disconnect":
        pass


def _is_loopback(name: str | None) -> bool:
    if name == "localhost":
        return True
    with contextlib.suppress(ValueError):
        return ipaddress.ip_address(name or "").is_loopback
    return False
