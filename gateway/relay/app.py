"""The relay: one inference request from its first byte to its record. START READING HERE.

    1 who      keys.py        a key, or 401
    2 what     request.py     the body, read once           -> Request
    3 where    routing/       name -> Route -> group        -> turn.py, which does 3 to 7
    8 record   here           one record, whatever happened

A client that leaves cancels the task that serves it, in every phase: whoever waits there closes
what it holds. So does a stop of the gateway, with an error for the client.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from secrets import token_hex
from typing import Any

from gateway import errors
from gateway.config.config import Config, Dialect
from gateway.delivery import ClientStalled, Delivery, Receive, Send
from gateway.dialects import PATHS, error_event
from gateway.exchange import Headers, Sender
from gateway.keys import KeyRing, guard_open
from gateway.records.record import Record, clean_text
from gateway.relay.admission import Admission
from gateway.relay.request import ClientLeft, parse, read_body
from gateway.relay.turn import Turn
from gateway.routing.table import RouteTable, resolve
from gateway.trace import Trace


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
        self.serving, self.admission = serving, admission
        self.relay, self.bridge = relay, bridge
        self.wall, self.on_record, self.on_refused = wall, on_record, on_refused
        self.draining = False
        self.running: dict[asyncio.Task[Any], Trace] = {}

    def dialect_of(self, path: str) -> Dialect | None:
        """The dialect of an inference path, with or without /v1; None for any other."""
        return PATHS.get(path.removeprefix("/v1"))

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
            if serving.keys.is_open:
                guard_open(headers)
            client = serving.keys.who(headers.get(b"authorization"), headers.get(b"x-api-key"))
            if self.draining:
                raise errors.Draining("the gateway is stopping: try again", retry_after_s=5)
        except errors.GatewayError as error:
            self.on_refused(error)
            await Delivery(send, list).whole(
                error.shown_status, errors.headers(error), errors.body(error, dialect)
            )
            return
        trace = Trace(
            id=token_hex(8), at=self.wall(), started=self.admission.clock(), client=client,
            client_ip=(scope.get("client") or ("",))[0], dialect=dialect, config=serving.revision,
            app=clean_text(headers.get(b"x-client") or headers.get(b"user-agent")),
        )
        await self._serve(serving, trace, headers, receive, send)

    async def _serve(
        self, serving: Serving, trace: Trace, headers: dict[bytes, bytes], receive: Receive,
        send: Send,
    ) -> None:
        delivery = Delivery(send, trace.headers)
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 -- ASGI servers run applications in a task
        self.running[task] = trace
        watcher: asyncio.Task[None] | None = None
        try:
            body = await read_body(headers, receive, serving.config.max_body_bytes)
            watcher = asyncio.create_task(_cancel_when_left(receive, task, trace))
            request = parse(body, headers, trace.dialect, trace.client, trace.id)
            trace.stream = request.stream
            route = resolve(serving.table, request.model, request.task, trace.client.names)
            trace.route = route
            if not trace.client.may_use(route):
                raise errors.Forbidden(f"this key does not open '{route.name}'")
            if request.stream and serving.config.heartbeat_s > 0:
                delivery.beat_every(serving.config.heartbeat_s)
            turn = Turn(self, serving, request, route, delivery, trace)
            await turn.serve()
            trace.outcome = "ok"
        except (ClientLeft, ClientStalled):
            trace.outcome = "cancelled"
        except asyncio.CancelledError:
            trace.outcome = "cancelled"
            if not trace.left:
                if task.uncancel() or not trace.stopped:
                    raise
                await _tell(delivery, trace, errors.Draining("the gateway stopped"))
        except errors.GatewayError as error:
            await _tell(delivery, trace, error)
        finally:
            if watcher is not None:
                watcher.cancel()
            delivery.close()
            del self.running[task]
            self.on_record(trace.record(self.admission.clock()))


async def _tell(delivery: Delivery, trace: Trace, error: errors.GatewayError) -> None:
    """Tell the client of a failure: as a whole body, or as the last event of what it has."""
    trace.error = error.shown_code
    trace.outcome = "refused" if error.shown_status < 500 else "failed"
    body = errors.body(error, trace.dialect)
    if delivery.started:
        trace.outcome = "failed"
        await delivery.end(error_event(trace.dialect, body))
        return
    trace.status = error.shown_status
    await delivery.whole(error.shown_status, errors.headers(error), body)


async def _cancel_when_left(receive: Receive, task: asyncio.Task[Any], trace: Trace) -> None:
    """Cancel the task that serves a request when its client closes the connection."""
    while (await receive())["type"] != "http.disconnect":
        pass  # what may still be said about a body that was read whole
    trace.left = True
    task.cancel()
