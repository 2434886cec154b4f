"""Prometheus metrics. `observe` only adds to plain numbers; families are made at the scrape.

Labels are bounded: names come from the file (the relay stores no unknown one), outcomes and
statuses from closed sets. Should that ever fail, what is new beyond a few thousand combinations
is counted together under the label value `other`. One thread observes and scrapes: the loop's.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from typing import Literal

from prometheus_client import CollectorRegistry, Info, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from gateway.records.record import Record
from gateway.records.rollups import NOBODY, TIERS
from gateway.records.state import NowState

FIRST_CONTENT_S = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0)
DURATION_S = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1200.0)
QUEUE_S = (0.001, 0.01, 0.1, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
MAX_SERIES = 4096
_OTHER = "other"
_REQUEST_LABELS = ("dialect", "tier", "group", "deployment", "outcome", "status")
_TOKENS = ("prompt", "cached", "completion", "reasoning")

_Key = tuple[str, str | None, str | None, str | None, str, int]


class _Histogram:
    __slots__ = ("bounds", "counts", "sum")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.sum = 0.0

    def add(self, value: float) -> None:
        self.counts[bisect_left(self.bounds, value)] += 1
        self.sum += value

    def buckets(self) -> list[tuple[str, float]]:
        """Cumulative, as Prometheus wants them."""
        total, found = 0, []
        for bound, count in zip((*self.bounds, "+Inf"), self.counts, strict=True):
            total += count
            found.append((str(bound), float(total)))
        return found


class _Times:
    """The times of one tier's group."""

    __slots__ = ("duration", "first_content", "queue")

    def __init__(self) -> None:
        self.first_content = _Histogram(FIRST_CONTENT_S)
        self.duration = _Histogram(DURATION_S)
        self.queue = _Histogram(QUEUE_S)


class _Series:
    """What is counted under one combination of request labels."""

    __slots__ = ("cached", "completion", "prompt", "reasoning", "requests", "times")

    def __init__(self, times: _Times) -> None:
        self.times = times
        self.requests = self.prompt = self.cached = self.completion = self.reasoning = 0


class Metrics:
    """Counts records and renders `/metrics`. `now` and `lost` are asked at each scrape."""

    def __init__(
        self,
        *,
        now: Callable[[], NowState] = NowState,
        lost: Callable[[], int] = lambda: 0,
        callbacks_lost: Callable[[], int] = lambda: 0,
    ) -> None:
        self._now = now
        self._lost, self._callbacks_lost = lost, callbacks_lost
        self._series: dict[_Key, _Series] = {}
        self._times: dict[tuple[str, str], _Times] = {}
        self._attempts: dict[tuple[str, str], int] = {}
        self._refused_keys = 0
        self._reloads = {"ok": 0, "rejected": 0}
        self._config_loaded_at = 0.0
        self._registry = CollectorRegistry()
        self._registry.register(_Families(self._collect))
        self._config = Info("gateway_config", "The revision of the file", registry=self._registry)
        ProcessCollector(registry=self._registry)

    def observe(self, record: Record) -> None:
        """Count a record."""
        key = (
            record.dialect, record.tier, record.group, record.deployment,
            record.outcome, record.status,
        )  # fmt: skip
        series = self._series.get(key)
        if series is None:
            series = self._new_series(key)
        series.requests += 1
        if record.prompt_tokens:
            series.prompt += record.prompt_tokens
        if record.cached_tokens:
            series.cached += record.cached_tokens
        if record.completion_tokens:
            series.completion += record.completion_tokens
        if record.reasoning_tokens:
            series.reasoning += record.reasoning_tokens
        times = series.times
        times.duration.add(record.duration_ms / 1000)
        times.queue.add(record.queue_ms / 1000)
        if record.ttft_ms is not None:
            times.first_content.add(record.ttft_ms / 1000)
        for attempt in record.attempts:
            self._count_attempt(attempt.deployment, attempt.outcome)

    def key_refused(self) -> None:
        """Count a request without a known key."""
        self._refused_keys += 1

    def config_loaded(self, revision: str, at: float) -> None:
        """Show the revision now in force, loaded at `at` (seconds since 1970)."""
        self._config.info({"revision": revision})
        self._config_loaded_at = at

    def reloaded(self, outcome: Literal["ok", "rejected"]) -> None:
        """Count a reload of the file."""
        self._reloads[outcome] += 1

    def render(self, accept: str = "") -> tuple[bytes, str]:
        """The page and its content type, as text or as OpenMetrics."""
        encode, content_type = choose_encoder(accept)
        return encode(self._registry), content_type

    def _count_attempt(self, deployment: str, outcome: str) -> None:
        key = (deployment, outcome)
        count = self._attempts.get(key)
        if count is None:
            if len(self._attempts) >= MAX_SERIES:
                key = (_OTHER, _OTHER)
            count = self._attempts.get(key, 0)
        self._attempts[key] = count + 1

    def _new_series(self, key: _Key) -> _Series:
        if len(self._series) >= MAX_SERIES:
            key = (_OTHER, _OTHER, _OTHER, _OTHER, _OTHER, 0)
        place = (key[1] or NOBODY, key[2] or NOBODY)
        times = self._times.setdefault(place, _Times())
        return self._series.setdefault(key, _Series(times))

    def _collect(self) -> Iterator[Metric]:
        now = self._now()
        yield from self._request_families(now)
        yield from self._time_families()
        yield from self._state_families(now)
        yield _counter("gateway_keys_refused", "Requests without a known key", self._refused_keys)
        yield _counter("gateway_records_lost", "Records that could not be written", self._lost())
        told = "Calls of other people's callbacks that were not made, or failed"
        yield _counter("gateway_callbacks_lost", told, self._callbacks_lost())
        reloads = CounterMetricFamily(
            "gateway_config_reloads", "Reloads of the file", labels=["outcome"]
        )
        for outcome, count in self._reloads.items():
            reloads.add_metric([outcome], count)
        yield reloads
        yield GaugeMetricFamily(
            "gateway_config_loaded_timestamp_seconds",
            "When the revision in force was loaded",
            value=self._config_loaded_at,
        )

    def _request_families(self, now: NowState) -> Iterator[Metric]:
        requests = CounterMetricFamily(
            "gateway_requests",
            "Requests that passed the key check, by the tier of the name that was sent",
            labels=_REQUEST_LABELS,
        )
        served = CounterMetricFamily(
            "gateway_served_requests",
            "Requests by the tier of the deployment that served them or failed last",
            labels=["tier"],
        )
        tokens = CounterMetricFamily(
            "gateway_tokens",
            "Tokens, as engines reported them, by the tier of the deployment",
            labels=["tier", "group", "kind"],
        )
        tier_of = {d.id: d.tier for d in now.deployments}
        tiers = dict.fromkeys(TIERS, 0)  # no burst traffic shows as a zero
        sums: dict[tuple[str, str, str], int] = {}
        for key, series in self._series.items():
            requests.add_metric([_label(part) for part in key], series.requests)
            tier = tier_of.get(key[3] or "") or _label(key[1])
            tiers[tier] = tiers.get(tier, 0) + (series.requests if key[3] is not None else 0)
            for kind in _TOKENS:
                place = (tier, _label(key[2]), kind)
                sums[place] = sums.get(place, 0) + getattr(series, kind)
        for place, total in sums.items():
            tokens.add_metric(place, total)
        for tier, count in tiers.items():
            served.add_metric([tier], count)
        yield from (requests, served, tokens)

    def _time_families(self) -> Iterator[Metric]:
        labels = ["tier", "group"]
        families = {
            "first_content": HistogramMetricFamily(
                "gateway_ttft_seconds", "Until the first content was sent", labels=labels
            ),
            "duration": HistogramMetricFamily(
                "gateway_duration_seconds", "Until the request was over", labels=labels
            ),
            "queue": HistogramMetricFamily(
                "gateway_queue_seconds", "Spent waiting for a permit", labels=labels
            ),
        }
        for place, times in self._times.items():
            for name, family in families.items():
                histogram: _Histogram = getattr(times, name)
                family.add_metric(place, buckets=histogram.buckets(), sum_value=histogram.sum)
        yield from families.values()

    def _state_families(self, now: NowState) -> Iterator[Metric]:
        tier_of = {d.id: d.tier for d in now.deployments}
        # A deployment that was never tried shows as zero: no burst traffic can be seen.
        counts = {(d.id, "ok"): 0 for d in now.deployments} | self._attempts
        attempts = CounterMetricFamily(
            "gateway_attempts", "Attempts sent", labels=["deployment", "tier", "outcome"]
        )
        for (deployment, outcome), count in counts.items():
            attempts.add_metric([deployment, tier_of.get(deployment, NOBODY), outcome], count)
        yield attempts
        labels = ["deployment", "group", "tier"]
        gauges = {
            name: GaugeMetricFamily(f"gateway_deployment_{name}", text, labels=labels)
            for name, text in _DEPLOYMENT_GAUGES.items()
        }
        for d in now.deployments:
            values = (d.in_flight, d.rpm_used, d.tpm_used, d.rests_s is not None, d.rests_s or 0.0)
            for gauge, value in zip(gauges.values(), values, strict=True):
                gauge.add_metric([d.id, d.group, d.tier], float(value))
        yield from gauges.values()
        waiting = GaugeMetricFamily(
            "gateway_waiting", "Requests that wait for a permit", labels=["group"]
        )
        for group, count in now.waiting:
            waiting.add_metric([group], count)
        yield waiting
        yield GaugeMetricFamily("gateway_slot_leases", "Leases of slots held", value=now.leases)
        yield _counter("gateway_slot_leases_lost", "Leases lost under requests", now.leases_lost)


_DEPLOYMENT_GAUGES = {
    "in_flight": "Requests that hold a permit",
    "rpm_used": "Attempts of the last 60 seconds",
    "tpm_used": "Tokens of the last 60 seconds",
    "resting": "1 while it is in cooldown",
    "rest_seconds": "What is left of its cooldown",
}


class _Families(Collector):
    """Hands the registry what is known at this moment."""

    def __init__(self, collect: Callable[[], Iterable[Metric]]) -> None:
        self._collect = collect

    def collect(self) -> Iterable[Metric]:
        return self._collect()


def _label(value: str | int | None) -> str:
    return NOBODY if value is None else str(value)


def _counter(name: str, text: str, value: int) -> CounterMetricFamily:
    return CounterMetricFamily(name, text, value=value)
