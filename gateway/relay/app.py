"""The relay: one inference request from its first byte to its record. START READING HERE.

    1 who      keys.py        a key, or 401
    2 what     request.py     the body, read once           -> Request
    3 where    routing/       name -> Route -> groups       -> turn.py, which does 3 to 7
    8 record   here           one record, whatever happened

A client that leaves cancels the task that serves it, in every phase: whoever waits there closes
what it holds. So does a stop of the gateway, with an error for the client.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from gateway import errors
from gateway.config.config import Config, Deployment
from gateway.delivery import ClientStalled, Delivery, Receive, Send
from gateway.dialects import PATHS
from gateway.exchange import Request, Sender
from gateway.keys import KeyRing
from gateway.records.record import Record, clean_text
from gateway.relay.admission import Admission
from gateway.relay.request import ClientLeft, parse, read_body
from gateway.relay.turn import Turn
from gateway.routing.plan import Plan
from gateway.routing.table import RouteTable, resolve
from gateway.trace import Trace
from gateway.watch import Watch


@dataclass(frozen=True, slots=True, kw_only=True)
class Serving:
    """One revision of the file, ready to serve. A request keeps the one that it began with."""

    config: Config
    table: RouteTable
    keys: KeyRing
    revision: str


class Relay:
    """The ASGI application of the inference paths. A reload replaces `serving`, whole."""

    def __init__(
        self,
        serving: Serving,
        *,
        admission: Admission,
        relay: Sender,
        bridge: Sender | None,
        wall: Callable[[], datetime],
        on_record: Callable[[Record], None],
        on_refused: Callable[[errors.GatewayError], None],
    ) -> None:
        self.serving, self.admission, self.wall = serving, admission, wall
        self._relay, self._bridge = relay, bridge
        self._on_record, self._on_refused = on_record, on_refused
        self.draining = False
        self.running: dict[asyncio.Task[Any], Trace] = {}

    def sender(self, request: Request, deployment: Deployment) -> Sender:
        """Who sends: the relay where the engine speaks the dialect, else the bridge."""
        relayed = self._bridge is None or request.dialect in deployment.relays
        return self._relay if relayed or self._bridge is None else self._bridge

    def stop_all(self) -> None:
        """The drain is over: end what still runs with an error."""
        for task, trace in self.running.items():
            trace.stopped = True
            task.cancel()

    async def __call__(self, scope: Mapping[str, Any], receive: Receive, send: Send) -> None:
        """Serve one POST to an inference path."""
        dialect, serving = PATHS[scope["path"].removeprefix("/v1")], self.serving
        headers: dict[bytes, bytes] = dict(scope["headers"])
        try:
            client = serving.keys.client(headers)
            if self.draining:
                raise errors.Draining("the gateway is stopping: try again", retry_after_s=5)
        except errors.GatewayError as error:
            self._on_refused(error)
            body = errors.body(error, dialect)
            return await Delivery(send, list).whole(error.shown_status, errors.headers(error), body)
        trace = Trace(
            id=b"%016x" % self.admission.random.getrandbits(64),
            at=self.wall(),
            started=self.admission.clock(),
            client=client,
            client_ip=(scope.get("client") or ("",))[0],
            app=clean_text(headers.get(b"x-client") or headers.get(b"user-agent")),
            dialect=dialect,
            config=serving.revision,
        )
        await self._serve(serving, trace, headers, receive, Delivery(send, trace.headers))

    async def _serve(
        self,
        serving: Serving,
        trace: Trace,
        headers: dict[bytes, bytes],
        receive: Receive,
        delivery: Delivery,
    ) -> None:
        """Steps 2 to 8. Whatever happens, one record comes of it."""
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 -- ASGI servers run applications in a task
        self.running[task] = trace
        watch = Watch(receive, task, trace)
        try:
            body = await read_body(headers, receive, serving.config.max_body_bytes)
            watch.begin()
            request = parse(body, headers, trace)
            trace.route = route = resolve(
                serving.table, request.model, request.task, trace.client.names
            )
            if not trace.client.may_use(route):
                raise errors.Forbidden(f"this key does not open '{route.name}'")
            if request.stream and serving.config.heartbeat_s > 0:
                delivery.beat_every(serving.config.heartbeat_s)
            plan = Plan(serving.table, route, fallbacks=request.facts.fallbacks)
            await Turn(self, serving, request, delivery, trace).serve(plan, route)
            trace.outcome = "ok"
        except (ClientLeft, ClientStalled):
            trace.outcome = "cancelled"
        except asyncio.CancelledError:
            trace.outcome = "cancelled"
            if trace.stopped and not trace.left:
                await _tell(delivery, trace, errors.Draining("the gateway stopped"))
            elif not trace.left:
                raise
        except errors.GatewayError as error:
            await _tell(delivery, trace, error)
        finally:
            watch.end()
            delivery.close()
            del self.running[task]
            self._on_record(trace.record(self.admission.clock()))


async def _tell(delivery: Delivery, trace: Trace, error: errors.GatewayError) -> None:
    trace.error = error.shown_code
    trace.status = 200 if delivery.started else error.shown_status
    trace.outcome = "refused" if trace.status in range(400, 500) else "failed"
    await delivery.tell(error, trace.dialect)
