"""The composition root: everything is built here, once, and handed down.

`Gateway` is the live gateway: the relay and the pages, what outlives a reload (health, permits,
queues, records), and the one revision of the file that it serves. process.py runs it: sockets,
signals, reload, drain.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Coroutine, Iterable
from random import Random
from typing import Any

import structlog

from common.problems import Problem
from gateway.api.app import build as build_pages
from gateway.api.view import Phase
from gateway.bridge import is_there
from gateway.bridge.content import Tee
from gateway.bridge.loggers import Loggers, others
from gateway.bridge.translate import BridgeSender
from gateway.config.config import Config, Deployment, TierName
from gateway.dialects import PATHS
from gateway.errors import GatewayError, Unauthorized
from gateway.exchange import Senders, Serving
from gateway.http1.client import Client as HttpClient
from gateway.inbound import Inbound
from gateway.keys import Client, KeyRing
from gateway.outbox import Outbox
from gateway.records.activity import ActivityLog
from gateway.records.metrics import Metrics
from gateway.records.record import Record
from gateway.records.state import DeploymentState, NowState
from gateway.records.usage import Usage
from gateway.relay.admission import Admission
from gateway.relay.app import Relay
from gateway.relay.attempt import EngineSender
from gateway.routing.health import Health
from gateway.routing.limits import Limits
from gateway.routing.table import RouteTable, build
from gateway.slots.attempt import Slots
from gateway.slots.leases import Leases

_log = structlog.get_logger("gateway")
INFERENCE = frozenset(prefix + path for prefix in ("", "/v1") for path in PATHS)
# Keys that a running process cannot take over from a reloaded file.
_NEEDS_RESTART = ("host", "port", "activity", "callbacks", "callback_content")


class Gateway:
    """The live gateway. `start` before, `stop` after serving.

    `serve` answers a POST to one of the INFERENCE paths; `pages` is an ASGI app for all else.
    """

    def __init__(
        self,
        config: Config,
        *,
        insecure: bool = False,
        clock: Callable[[], float] = time.monotonic,
        random: Random | None = None,
        bridge: BridgeSender | None = None,
    ) -> None:
        self._insecure = insecure
        self._random = random or Random(os.urandom(16))  # noqa: S311 -- no secret is drawn
        self.phase: Phase = "starting"
        self.rejected: tuple[Problem, ...] = ()
        self._removed: dict[str, tuple[Deployment, TierName]] = {}  # until they drain
        self.outbox = Outbox()
        self._http = HttpClient(outbox=self.outbox)
        self._admission = Admission(Health(), Limits(), clock, self._random)
        self._bridge = bridge or (BridgeSender() if is_there() else None)
        self._admission.bridge = self._bridge is not None
        self.activity = ActivityLog(config.activity)
        self.usage = Usage(
            config.activity.path, flush=self.activity.flush, tier_of=lambda g: self.tier_of(g)
        )
        names = others(config) if is_there() else ()
        self.loggers = Loggers(names, config.path) if names else None
        self._tees: dict[str, Tee] | None = {} if names and config.callback_content else None
        self.metrics = Metrics(
            now=self.now,
            lost=lambda: self.activity.lost,
            callbacks_lost=lambda: self.loggers.lost if self.loggers is not None else 0,
        )
        self.slots = Slots(Leases())
        self.relay = Relay(
            serving=self._serving(config),
            admission=self._admission,
            sender=Senders(EngineSender(self._http), self._bridge),
            slots=self.slots,
            wall=time.time,
            on_record=self._record,
            on_refused=self._refused,
        )
        self.pages = build_pages(self)
        self.loaded_at = time.time()
        self.metrics.config_loaded(self.relay.serving.revision, self.loaded_at)

    def _serving(self, config: Config) -> Serving:
        table = build(config)
        keys = KeyRing(config, table)
        if keys.is_open and not self._insecure:
            raise InsecureError
        return Serving(config=config, table=table, keys=keys, revision=str(config.revision))

    @property
    def config(self) -> Config:
        """The revision of the file in force."""
        return self.relay.serving.config

    @property
    def table(self) -> RouteTable:
        """Its route table."""
        return self.relay.serving.table

    @property
    def records_lost(self) -> int:
        """Records that were not written."""
        return self.activity.lost

    def tier_of(self, group: str) -> str | None:
        """A model group's tier in the file in force."""
        return self.config.tiers.get(group)

    def identify(self, headers: Iterable[tuple[bytes, bytes]]) -> Client:
        """The caller; raises a GatewayError without a known key."""
        return self.relay.serving.keys.identify(headers)

    def now(self) -> NowState:
        """Every deployment's state at this moment, and that of removed ones until they drain."""
        limits = self._admission.limits
        at = self._admission.clock()
        for gone in [i for i in self._removed if not limits.use(i, at).in_flight]:
            del self._removed[gone]
        tiers = self.config.tiers
        listed = [(d, tiers[d.group]) for d in self.config.deployments]
        states = [self._state(*one, at) for one in (*listed, *self._removed.values())]
        waiting = tuple((name, self._admission.waiting(name)) for name in self.table.groups)
        leases = self.slots.leases
        return NowState(
            deployments=tuple(states),
            waiting=waiting,
            leases=leases.held,
            leases_lost=leases.lost,
        )

    def _state(self, deployment: Deployment, tier: TierName, at: float) -> DeploymentState:
        use = self._admission.limits.use(deployment.id, at)
        return DeploymentState(
            id=deployment.id,
            group=deployment.group,
            tier=tier,
            in_flight=use.in_flight,
            rpm_used=len(use.calls),
            tpm_used=use.tokens,
            rests_s=self._admission.health.rests(deployment.id, at),
        )

    def serve(self, inbound: Inbound) -> Coroutine[Any, Any, None]:
        """Answer one POST to an inference path."""
        return self.relay(inbound if self._tees is None else Tee(inbound, self._tees))

    async def start(self) -> None:
        """Open the activity log and the counters; RecordsError says why that cannot be."""
        if self._bridge is not None:
            self._bridge.prepare(self.config)
        self.relay.loop = asyncio.get_running_loop()
        if self.loggers is not None:
            self.loggers.start()
        self.activity.start()
        await asyncio.to_thread(self.usage.start)
        self.phase = "ready"

    def swap(self, config: Config) -> tuple[str, ...]:
        """Serve another revision from the next request on. Returns keys that need a restart."""
        before = self.config
        self.relay.serving = self._serving(config)
        now_there = {d.id for d in config.deployments}
        old = {d.id: (d, before.tiers[d.group]) for d in before.deployments}
        self._removed |= old
        self._removed = {i: one for i, one in self._removed.items() if i not in now_there}
        self.rejected = ()
        if self._bridge is not None:
            self._bridge.prepare(config)
        self.loaded_at = time.time()
        self.metrics.config_loaded(self.relay.serving.revision, self.loaded_at)
        for group in self.table.groups:  # caps may have been raised for those who wait
            self._admission.wake(group)
        return tuple(k for k in _NEEDS_RESTART if getattr(before, k) != getattr(config, k))

    def reject(self, problems: tuple[Problem, ...]) -> None:
        """The file on disk is wrong: show it, change nothing."""
        self.rejected = problems
        self.metrics.reloaded("rejected")

    async def drain(self) -> None:
        """Take nothing new; wait for what runs, at most `drain_s`; then end it with an error."""
        self.phase = "draining"
        self.relay.draining = True
        if running := [trace.task for trace in self.relay.running]:
            await asyncio.wait(running, timeout=self.config.drain_s)
        for trace in self.relay.running:
            trace.stopped = True  # so that its client is told
            trace.task.cancel()
        if running := [trace.task for trace in self.relay.running]:
            await asyncio.wait(running, timeout=2.0)

    async def stop(self) -> None:
        """Give leases back, close connections, write what waits, close the files."""
        await self.slots.leases.close()
        await self._http.close()
        if self._bridge is not None:
            await self._bridge.close()
        if self.loggers is not None:
            await self.loggers.close()
        await self.activity.aclose()
        await asyncio.to_thread(self.usage.close)

    def _record(self, record: Record) -> None:
        self.activity.write(record)
        self.usage.add(record)
        self.metrics.observe(record)
        if self.loggers is not None:
            tee = self._tees.pop(record.id, None) if self._tees is not None else None
            self.loggers.write(record, self.config, tee.content() if tee is not None else None)
        if record.outcome != "ok":
            _log.info(
                "request",
                id=record.id,
                client=record.client,
                model=record.requested_model,
                deployment=record.deployment,
                status=record.status,
                outcome=record.outcome,
                error=record.error,
                attempts=[(a.deployment, a.outcome) for a in record.attempts],
                ms=record.duration_ms,
            )

    def _refused(self, error: GatewayError) -> None:
        if isinstance(error, Unauthorized):
            self.metrics.key_refused()


class InsecureError(Exception):
    """The file has no key, and nobody said --insecure."""

    def __init__(self) -> None:
        super().__init__(
            "the file has no master key and no client key: set general_settings.master_key or "
            "gateway_settings.client_keys (or serve with --insecure, on loopback only)"
        )
