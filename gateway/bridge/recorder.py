"""`recorder`: under the stock LiteLLM proxy it writes this gateway's activity records.

One record for each inference request that passed the proxy's key check, whatever became of it.
What the proxy tells, and when:

async_pre_call_hook                       a request came in
async_pre_call_deployment_hook            an attempt begins     (twice for a translated call)
async_post_call_failure_deployment_hook   an attempt failed
async_log_failure_event                   the first group failed; a fallback may still serve
async_log_success_event                   the end, if an answer came: the record
async_post_call_failure_hook              the end, if none did: the record
nothing                                   a request that was forgotten: the record, as failed

It only watches: nothing of a request is changed. This gateway knows the name, and never calls it.
"""

from __future__ import annotations

import atexit
import os
import sys
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any

import structlog
from litellm.integrations.custom_logger import CustomLogger

from gateway.bridge import flight, stock
from gateway.bridge.flight import Flight
from gateway.bridge.stock import Names
from gateway.config.config import Activity
from gateway.records.activity import ActivityLog, RecordsError
from gateway.records.record import Outcome, Record

MAX_FLIGHTS = 4096  # requests at one time; beyond, the oldest counts as forgotten
_LEFT = "Client disconnected"  # LiteLLM's words in an event that it calls a success

log = structlog.get_logger("recorder")


class Recorder(CustomLogger):
    """Writes a Record for each request. Owned by the proxy, in whose loop every hook runs."""

    def __init__(
        self,
        write: Callable[[Record], None] | None = None,
        *,
        names: Names | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        super().__init__()
        self._given, self._given_names, self._clock = write, names, clock
        self._flights: OrderedDict[str, Flight] = OrderedDict()

    @cached_property
    def names(self) -> Names:
        """The file's names; read at the first request, when the proxy knows its file.

        A rendered file has lost them: SIGNALBOX_CONFIG names the one that it was made from.
        """
        return self._given_names or stock.read(
            os.environ.get("SIGNALBOX_CONFIG") or _config_path(), os.environ
        )

    @cached_property
    def write(self) -> Callable[[Record], None]:
        """Where records go. Opened by the process that serves, not by one that it forks from."""
        opened = self._given or _open_log(self.names)
        atexit.register(self.close)  # last in, first out: before the log closes
        return opened

    async def async_pre_call_hook(
        self, user_api_key_dict: Any, cache: Any, data: dict[str, Any], call_type: Any
    ) -> None:
        """A request came in."""
        word = str(getattr(call_type, "value", call_type))
        found = flight.arrived(data, word, self._clock())
        if found is not None and found.id not in self._flights:
            _ = self.write  # a log that cannot be had is told at the first request
            self._flights[found.id] = found
            while len(self._flights) > MAX_FLIGHTS:
                _, forgotten = self._flights.popitem(last=False)
                self._forgotten(forgotten)

    async def async_pre_call_deployment_hook(self, kwargs: dict[str, Any], call_type: Any) -> None:
        """An attempt begins."""
        found = self._flights.get(str(kwargs.get("litellm_call_id")))
        if found is None:
            return
        group = flight.metadata(kwargs).get("model_group")
        info = kwargs.get("model_info")
        model_id = info.get("id") if isinstance(info, Mapping) else None
        served = self.names.served(
            group if isinstance(group, str) else found.requested_model,
            str(model_id),
            str(kwargs.get("model")),
            kwargs.get("api_base"),
        )
        found.attempting(served, self._clock())

    async def async_post_call_failure_deployment_hook(
        self,
        request_data: Mapping[str, Any],
        exception: Exception,
        call_type: Any,
        fallback_depth: int | None = None,
    ) -> None:
        """An attempt failed."""
        found = self._flights.get(str(request_data.get("litellm_call_id")))
        if found is not None:
            found.attempted(flight.failure(exception)[2], self._clock())

    async def async_log_failure_event(
        self, kwargs: dict[str, Any], response_obj: Any, start_time: Any, end_time: Any
    ) -> None:
        """The first group failed. Of an answer that broke off, the proxy has counted tokens."""
        found = self._flights.get(str(kwargs.get("litellm_call_id")))
        if found is not None and found.running_since is not None:
            payload = _payload(kwargs)
            found.told_usage(_usage(payload), estimated=True)
            found.first = _first(found, payload)

    async def async_log_success_event(
        self, kwargs: dict[str, Any], response_obj: Any, start_time: Any, end_time: Any
    ) -> None:
        """The end: an answer, or as much of one as the client stayed for."""
        found = self._flights.pop(str(kwargs.get("litellm_call_id")), None)
        if found is None:
            return
        payload = _payload(kwargs)
        left = _LEFT in str(payload.get("error_str"))
        ended = _seconds(payload.get("endTime")) or self._clock()
        found.told_usage(_usage(payload), estimated=left)
        found.attempted("cancelled" if left else "ok", ended)
        found.first = _first(found, payload)
        outcome: Outcome = "cancelled" if left else "ok"
        status = 499 if left and not found.stream else 200
        self._write(found, outcome=outcome, status=status, ended=ended)

    async def async_post_call_failure_hook(
        self,
        request_data: dict[str, Any],
        original_exception: Exception,
        user_api_key_dict: Any,
        traceback_str: str | None = None,
    ) -> None:
        """The end: the client was told an error, or has left."""
        found = self._flights.pop(str(request_data.get("litellm_call_id")), None)
        if found is None:
            return  # refused at the key check, or told already
        status, code, word = flight.failure(original_exception)
        if status == 499:
            found.attempted("cancelled", self._clock())
            self._write(found, outcome="cancelled", status=499, ended=self._clock())
            return
        if code == "model_not_found":
            found.requested_model = None  # a name that is none of ours may be anything
        if found.stream and found.running_since is not None:
            status = 200  # it broke off after it had begun
        found.attempted(word, self._clock())
        outcome: Outcome = "refused" if 400 <= status < 500 else "failed"
        self._write(found, outcome=outcome, status=status, ended=self._clock(), error=code)

    def close(self) -> None:
        """The process ends: what is still in flight has failed."""
        while self._flights:
            self._forgotten(self._flights.popitem(last=False)[1])

    def _forgotten(self, found: Flight) -> None:
        now = self._clock()
        found.attempted("broken", now)
        self._write(found, outcome="failed", status=500, ended=now, error="gateway_error")

    def _write(self, found: Flight, **how: Any) -> None:
        self.write(found.record(self.names, **how))


def _payload(kwargs: Mapping[str, Any]) -> Mapping[str, Any]:
    found = kwargs.get("standard_logging_object")
    return found if isinstance(found, Mapping) else {}


def _usage(payload: Mapping[str, Any]) -> Mapping[str, Any]:
    meta = payload.get("metadata")
    found = meta.get("usage_object") if isinstance(meta, Mapping) else None
    return found if isinstance(found, Mapping) and found else payload


def _first(found: Flight, payload: Mapping[str, Any]) -> float | None:
    return _seconds(payload.get("completionStartTime")) if found.stream else None


def _seconds(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) and value > 0 else None


def _config_path() -> str | None:
    """The file that the proxy in this process serves."""
    proxy = sys.modules.get("litellm.proxy.proxy_server")
    found = getattr(proxy, "user_config_file_path", None)
    return str(found) if found else None


def _open_log(names: Names) -> Callable[[Record], None]:
    """One writer a file: a second worker with the same SIGNALBOX_ACTIVITY is told, and loses."""
    kept = names.config.activity if names.config is not None else Activity()
    path = os.environ.get("SIGNALBOX_ACTIVITY") or f"run/activity-stock-{os.getpid()}.jsonl"
    activity = ActivityLog(
        Activity(path=path, max_bytes=kept.max_bytes, max_age_days=kept.max_age_days)
    )
    try:
        activity.start()
    except RecordsError as error:
        # No traceback: the message says all.
        log.error("activity_log_unusable", error=str(error))  # noqa: TRY400
    atexit.register(activity.close)
    return activity.write


recorder = Recorder()
