"""A slot's control plane, over HTTP: the only file here that touches the HTTP client.

Each call has a connection of its own. One that waits for a lease is closed the moment its request
leaves, and that is how the control plane knows; and none is sent twice.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec

from gateway.exchange import Headers
from gateway.http1.client import Client, Target
from gateway.http1.errors import ClientError
from gateway.slots.said import Granted, Refused, Unreadable, read_lease

_LATE_S: Final = 5.0  # how much longer than it may wait a call for a lease may take
_QUICK_S: Final = 2.0  # for a call that has nothing to wait for
_CONNECT_S: Final = 2.0


class Unreachable(Exception):
    """No control plane answers there, or none that speaks as one."""


class Control:
    """The control plane at one address, called with one key."""

    def __init__(self, url: str, key: str | None) -> None:
        self._client: Client | None = None
        base = urlsplit(url)
        tls = base.scheme == "https"
        self._target = Target(base.hostname or "", base.port or (443 if tls else 80), tls)
        bearer = f"Authorization: Bearer {key}\r\n" if key else ""
        self._head = (
            f" HTTP/1.1\r\nHost: {base.netloc}\r\n{bearer}Connection: close\r\n"
            "Content-Type: application/json\r\nUser-Agent: signalbox\r\nContent-Length: "
        )

    async def lease(
        self, recipe: str, *, swap: bool, wait_s: float, holder: str
    ) -> Granted | Refused:
        """A lease, after at most `wait_s`. Raises Unreachable; cancelling closes the call."""
        asked = {"recipe": recipe, "swap": swap, "wait_s": round(wait_s, 3), "holder": holder}
        said = await self._call("POST", "/api/slot/lease", asked, wait_s + _LATE_S)
        try:
            return read_lease(*said, time.time())
        except Unreadable as wrong:
            raise Unreachable(str(wrong)) from wrong

    async def give_back(self, lease: str) -> str:
        """Give a lease back; how it ended, by the control plane. Raises Unreachable."""
        _, _, body = await self._call("DELETE", f"/api/slot/lease/{lease}", None, _QUICK_S)
        return str(_field(body, "ended", str))

    async def renew(self, rows: Sequence[Mapping[str, str]]) -> Sequence[str]:
        """Renew leases, each by `lease`, `recipe` and `holder`; those that are lost.

        A control plane that has begun anew takes them over. Raises Unreachable.
        """
        status, _, body = await self._call(
            "POST", "/api/slot/lease/renew", {"leases": list(rows)}, _QUICK_S
        )
        if status != 200:
            raise Unreachable(f"status {status} to a renewal")
        return list(_field(body, "lost", list[str]))

    async def close(self) -> None:
        """Close what is open."""
        if self._client is not None:
            await self._client.close()

    async def _call(
        self, method: str, path: str, asked: Any, limit_s: float
    ) -> tuple[int, Headers, bytes]:
        if self._client is None:  # made where a loop runs; an idle connection is never used again
            self._client = Client(connect_timeout_s=_CONNECT_S, idle_s=0.0)
        data = b"" if asked is None else msgspec.json.encode(asked)
        head = f"{method} {path}{self._head}{len(data)}\r\n\r\n".encode("latin-1")
        try:
            async with asyncio.timeout(limit_s):
                answer = await self._client.post(self._target, head, data)
                parts = []
                while part := await answer.read():
                    parts.append(part)
        except (ClientError, TimeoutError) as error:
            raise Unreachable(str(error)) from error
        return answer.status, answer.headers, b"".join(parts)


def _field(body: bytes, name: str, kind: Any) -> Any:
    """A field of an answer. Raises Unreachable where it is not there."""
    try:
        return msgspec.convert(msgspec.json.decode(body)[name], kind)
    except (msgspec.DecodeError, msgspec.ValidationError, KeyError, TypeError) as wrong:
        raise Unreachable("an answer that is none of a control plane's") from wrong
