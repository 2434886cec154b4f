"""What relay and bridge share: a request, an answer as it arrives, and the ways an attempt fails.

`server.py` hands the relay a Sender for each kind of deployment; neither knows the other.
"""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from dataclasses import dataclass
from typing import Protocol

import msgspec

from gateway.config.config import Config, Deployment, Dialect
from gateway.errors import GatewayError
from gateway.keys import Client, KeyRing
from gateway.routing.facts import RequestFacts
from gateway.routing.table import RouteTable

Headers = list[tuple[bytes, bytes]]


class Request(msgspec.Struct, kw_only=True, gc=False):
    """An inference request, read and checked, before it is fitted to a deployment."""

    id: bytes
    dialect: Dialect
    client: Client
    fields: dict[str, msgspec.Raw]  # the body's top level; values are the client's own bytes
    model: str | None
    task: str | None
    stream: bool
    wants_usage: bool  # the client asked for usage in its stream
    facts: RequestFacts
    headers: Mapping[bytes, bytes] = {}  # those that may go up


class AttemptFailed(Exception):
    """An attempt that brought no answer. `outcome` goes to the record; counts against health."""

    outcome = "failed"

    def __init__(self, detail: str = "") -> None:
        super().__init__(detail or self.outcome)


class NotConnected(AttemptFailed):
    """No connection: refused, unreachable, no such name, or too slow to accept."""

    outcome = "connect-error"


class Broken(AttemptFailed):
    """The connection ended before a whole answer: reset, closed, or no HTTP at all."""

    outcome = "broken"


class TimedOut(AttemptFailed):
    """A limit of the deployment ran out: whole answer, first content, or idle."""

    outcome = "timeout"


class ErrorEvent(Exception):
    """An error event inside a 200 stream; nothing that follows it counts."""

    def __init__(self, data: bytes) -> None:
        super().__init__("error event")
        self.data = data


class GroupFailed(Exception):
    """A group could not serve; `error` is what the client hears if nobody else can."""

    def __init__(self, error: GatewayError, *, overflow: bool = False) -> None:
        super().__init__(error.message)
        self.error, self.overflow = error, overflow


class Answer(Protocol):
    """An engine's answer whose head is in. Bytes are de-framed, in the client's dialect."""

    status: int
    headers: Headers  # names in lower case

    def at_end(self) -> bool:
        """True if the clean end is known to have come: the next read gives b""."""
        ...

    async def read(self) -> bytes:
        """What has arrived; b"" at the clean end.

        Raises Broken if the end is missing, or the error that abort() was given.
        """

    def abort(self, error: BaseException | None = None) -> None:
        """Close the engine's connection now."""


class Sender(Protocol):
    """Sends one request to one deployment."""

    def send(self, request: Request, deployment: Deployment) -> Awaitable[Answer]:
        """The answer, as soon as its head is in. Raises AttemptFailed; closes on cancellation."""
        ...


class Senders:
    """The sender of each request: the relay where the engine speaks its dialect, or the bridge."""

    def __init__(self, relay: Sender, bridge: Sender | None) -> None:
        self._relay, self._bridge = relay, bridge

    def send(self, request: Request, deployment: Deployment) -> Awaitable[Answer]:
        """See Sender."""
        if self._bridge is None or request.dialect in deployment.relays:
            return self._relay.send(request, deployment)
        return self._bridge.send(request, deployment)


@dataclass(frozen=True, slots=True, kw_only=True)
class Serving:
    """One revision of the file, ready to serve. A request keeps the one that it began with."""

    config: Config
    table: RouteTable
    keys: KeyRing
    revision: str


async def read_whole(answer: Answer, limit: int | None = None) -> bytes:
    """The whole body, or its first `limit` bytes and a little more. Raises as `read` does."""
    parts, size = [], 0
    while not answer.at_end() and (data := await answer.read()):
        parts.append(data)
        size += len(data)
        if limit is not None and size > limit:
            break
    return parts[0] if len(parts) == 1 else b"".join(parts)
