"""The relay: one inference request from its first byte to its record. START READING HERE.

    1 who      keys.py        a key, or 401
    2 what     request.py     the body, read once           -> Request
    3 where    routing/       name -> Route -> groups       -> turn.py, which does 3 to 7
    8 record   here           one record, whatever happened

A client that leaves cancels the task that serves it, and whoever waits there closes what it holds.
So does a stop of the gateway, with an error for the client.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, cast

from gateway import errors
from gateway.alarm import Alarms
from gateway.body import read_body
from gateway.delivery import ClientStalled, Delivery
from gateway.dialects import PATHS
from gateway.exchange import Sender, Serving
from gateway.inbound import ClientLeft, Inbound
from gateway.records.record import Record, clean_text
from gateway.relay.admission import Admission
from gateway.relay.request import parse
from gateway.relay.turn import Turn
from gateway.routing.facts import Wait
from gateway.routing.plan import Plan
from gateway.routing.table import resolve
from gateway.slots.attempt import Slots
from gateway.trace import Trace


@dataclass(slots=True, kw_only=True)
class Relay:
    """Serves the inference paths. A reload replaces `serving`, whole."""

    serving: Serving
    admission: Admission
    sender: Sender
    slots: Slots
    wall: Callable[[], float]  # seconds since 1970
    on_record: Callable[[Record], None]
    on_refused: Callable[[errors.GatewayError], None]
    loop: asyncio.AbstractEventLoop | None = None  # the running one; to ask for it costs more
    draining: bool = False
    running: set[Trace] = field(default_factory=set)
    alarms: Alarms = field(default_factory=Alarms)

    def __call__(self, inbound: Inbound) -> Coroutine[Any, Any, None]:
        """Serve one POST to an inference path. The task that runs this serves nobody else."""
        dialect, serving = PATHS[inbound.path.removeprefix("/v1")], self.serving
        headers = inbound.headers
        try:
            client = serving.keys.client(headers)
            if self.draining:
                raise errors.Draining("the gateway is stopping: try again", retry_after_s=5)
        except errors.GatewayError as error:
            self.on_refused(error)
            return Delivery(inbound, list).tell(error, dialect)
        trace = Trace(
            id=b"%016x" % self.admission.random.getrandbits(64),
            task=cast("asyncio.Task[Any]", asyncio.current_task(self.loop)),
            at=self.wall(),
            started=self.admission.clock(),
            client=client,
            client_ip=inbound.client_ip,
            app=clean_text(headers.get(b"x-client") or headers.get(b"user-agent")),
            dialect=dialect,
            config=serving.revision,
        )
        return self._serve(serving, trace, inbound)

    async def _serve(self, serving: Serving, trace: Trace, inbound: Inbound) -> None:
        """Steps 2 to 8. Whatever happens, one record comes of it."""
        self.running.add(trace)
        delivery = Delivery(inbound, trace.headers)
        try:
            body = await read_body(inbound, serving.config.max_body_bytes)
            inbound.on_left = trace.leave
            request = parse(body, inbound.headers, trace, serving.config.affinity)
            known = trace.client.names
            trace.route = route = resolve(serving.table, request.model, request.task, known)
            trace.client.must_open(route)
            if request.stream and serving.config.heartbeat_s > 0:
                delivery.beat_every(serving.config.heartbeat_s)
            plan = Plan(serving.table, route, fallbacks=request.facts.fallbacks)
            trace.wait = Wait(serving.table.groups[route.group].rule.max_wait_s)
            await Turn(self, serving, request, delivery, trace).serve(plan)
            trace.outcome = "ok"
        except (ClientLeft, ClientStalled):
            trace.outcome = "cancelled"
        except asyncio.CancelledError:
            trace.outcome = "cancelled"
            if trace.stopped and not trace.left:
                await delivery.fail(errors.Draining("the gateway stopped"), trace)
            elif not trace.left:
                raise
        except errors.GatewayError as error:
            await delivery.fail(error, trace)
        except Exception:  # the edge of a request: a fault of our own cuts no body either
            await delivery.fail(errors.GatewayError("the gateway failed; its log says why"), trace)
            raise
        finally:
            inbound.on_left = None
            delivery.close()
            self.running.remove(trace)
            self.on_record(trace.record(self.admission.clock()))
