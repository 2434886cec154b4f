"""What is known of one request while it runs, and the record that is made of it at its end."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

import msgspec

from gateway.config.config import Deployment, Dialect
from gateway.errors import GatewayError
from gateway.events import read_body
from gateway.exchange import Answer, Broken, Headers, read_whole
from gateway.keys import Client
from gateway.records.record import Attempt, Outcome, Record, Usage
from gateway.routing.facts import Wait
from gateway.routing.table import Route
from gateway.sse import Scanner


class Leased(msgspec.Struct, frozen=True, gc=False):
    """What a slot gave a request a lease for."""

    recipe: str
    port: int
    served_name: str


class Trace(msgspec.Struct, kw_only=True, eq=False):
    """Filled in as a request goes its way. Times are those of the gateway's steady clock."""

    id: bytes
    task: asyncio.Task[Any]  # that serves it
    at: float  # seconds since 1970
    started: float
    client: Client
    client_ip: str
    app: str
    dialect: Dialect
    config: str
    route: Route | None = None
    stream: bool = False
    group: str | None = None
    deployment: Deployment | None = None
    attempt_number: int = 0
    attempts: list[Attempt] = []
    wait: Wait = msgspec.field(default_factory=Wait)
    first_content: float | None = None
    status: int = 499  # until one is sent
    outcome: Outcome = "failed"
    error: str | None = None
    usage: Usage | None = None
    estimated: bool = False
    slot_wait: bytes | None = None  # X-Slot-Wait, as sent
    leased: Leased | None = None  # of the attempt that runs, or ran last
    held_s: float = 0.0  # that this attempt waited for its lease
    left: bool = False  # the client closed its connection
    stopped: bool = False  # the gateway's drain ran out

    def headers(self) -> Headers:
        """The headers that say what this gateway did, as far as it is known now."""
        found = [(b"x-gateway-request-id", self.id)]
        if self.deployment is not None:
            found.append((b"x-gateway-deployment", self.deployment.id.encode()))
        if self.route is not None:
            found.append((b"x-gateway-tier", self.route.tier.encode()))
        # The attempt that runs now is not yet in the list.
        found.append((b"x-gateway-attempts", b"%d" % self.attempt_number))
        found.append((b"x-gateway-config", self.config.encode()))
        if (leased := self.leased) is not None:
            found.append((b"x-slot-active-profile", leased.recipe.encode("latin-1", "replace")))
            found.append((b"x-slot-upstream-port", b"%d" % leased.port))
            found.append((b"x-slot-served-model", leased.served_name.encode("latin-1", "replace")))
        return found

    def failed(self, error: GatewayError, *, started: bool) -> GatewayError:
        """The request ends with this error, told as an event if the response has started."""
        self.error = error.shown_code
        self.status = 200 if started else error.shown_status
        self.outcome = "refused" if 400 <= self.status < 500 else "failed"
        return error

    async def whole(self, answer: Answer, content_type: bytes) -> bytes:
        """The body of an answer that does not stream; its usage is kept. Raises Broken."""
        body = await read_whole(answer)
        try:
            self.usage = read_body(body, content_type)
        except (msgspec.DecodeError, RecursionError):
            raise Broken("the answer is no JSON") from None
        self.status = answer.status
        return body

    def saw(self, scanner: Scanner, prompt_tokens: int) -> None:
        """A stream that reached the client: its usage, or an estimate from its content events."""
        usage = scanner.last_usage
        self.estimated = not scanner.usage_is_final
        if not self.estimated:
            self.usage = usage
            return
        said = usage or Usage()  # a running total, which is better than a count of events
        self.usage = msgspec.structs.replace(
            said,
            prompt_tokens=said.prompt_tokens or prompt_tokens,
            completion_tokens=said.completion_tokens or scanner.content_events,
        )

    def used_tokens(self) -> int:
        """What `tpm` is charged."""
        usage = self.usage or Usage()
        return (usage.prompt_tokens or 0) + (usage.completion_tokens or 0)

    def leave(self) -> None:
        """The client has left: nobody works for it any more."""
        self.left = True
        self.task.cancel()

    def attempting(self, deployment: Deployment) -> None:
        """An attempt begins."""
        self.group, self.deployment = deployment.group, deployment
        self.attempt_number += 1
        self.leased, self.held_s = None, 0.0

    def held(self, seconds: float) -> None:
        """The attempt waited so long for its lease: queue time, and none of the deployment's."""
        self.held_s += seconds
        self.wait.waited_s += seconds

    def attempted(self, deployment: Deployment, outcome: str, seconds: float) -> None:
        """One attempt is over."""
        ms = round((seconds - self.held_s) * 1000, 3)
        self.attempts.append(Attempt(deployment=deployment.id, outcome=outcome, ms=ms))

    def record(self, now: float) -> Record:
        """The record of the request, which ends at `now`."""
        usage, route, served = self.usage or Usage(), self.route, self.deployment
        return Record(
            id=self.id.decode(),
            at=_utc(self.at),
            client=self.client.name,
            client_ip=self.client_ip,
            app=self.app,
            dialect=self.dialect,
            requested_model=route.name if route is not None else None,
            task=route.task if route is not None else None,
            tier=route.tier if route is not None else None,
            group=self.group or (route.group if route is not None else None),
            deployment=served.id if served is not None else None,
            upstream=str(served.upstream) if served is not None else None,
            recipe=self.leased.recipe if self.leased is not None else None,
            attempts=self.attempts,
            stream=self.stream,
            status=self.status,
            outcome=self.outcome,
            error=self.error,
            queue_ms=round(self.wait.waited_s * 1000, 3),
            ttft_ms=_ms(self.started, self.first_content),
            duration_ms=round((now - self.started) * 1000, 3),
            prompt_tokens=usage.prompt_tokens,
            cached_tokens=usage.cached_tokens,
            completion_tokens=usage.completion_tokens,
            reasoning_tokens=usage.reasoning_tokens,
            tok_s=usage.tok_s(now - (self.first_content or self.started)),
            estimated=self.estimated,
            usage_note=_note(usage),
            config=self.config,
        )


def _utc(at: float) -> str:
    """ISO 8601 with milliseconds and Z."""
    return f"{_second(int(at))}.{int(at % 1 * 1000):03d}Z"


@lru_cache(maxsize=8)
def _second(at: int) -> str:
    """The part that a second's requests share."""
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%S")


def _ms(start: float, end: float | None) -> float | None:
    return None if end is None else round((end - start) * 1000, 3)


def _note(usage: Usage) -> str | None:
    """What is odd in the engine's numbers, which are stored as given."""
    reasoning, completion = usage.reasoning_tokens, usage.completion_tokens
    if reasoning is not None and completion is not None and reasoning > completion:
        return "reasoning tokens above completion tokens"
    cached, prompt = usage.cached_tokens, usage.prompt_tokens
    if cached is not None and prompt is not None and cached > prompt:
        return "cached tokens above prompt tokens"
    return None
