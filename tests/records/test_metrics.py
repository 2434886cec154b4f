"""Metrics as Prometheus reads them."""

from __future__ import annotations

import time

import pytest
from prometheus_client.openmetrics import parser as openmetrics
from prometheus_client.parser import text_string_to_metric_families

from gateway.records import metrics as metrics_of
from gateway.records.metrics import Metrics
from gateway.records.record import Attempt
from gateway.records.state import DeploymentState, NowState
from tests.records.build import record

PRIMARY = "primary-chat@gpu-1:8000/glm"
BURST = "burst-nemotron@nebius/nemotron"
NOW = NowState(
    deployments=(
        DeploymentState(
            id=PRIMARY, group="primary-chat", tier="interactive", in_flight=2, rpm_used=5
        ),
        DeploymentState(id=BURST, group="burst-nemotron", tier="burst", rests_s=12.5),
    ),
    waiting=(("primary-chat", 3),),
)


def value(metrics: Metrics, name: str, **labels: str) -> float | None:
    """A sample's value; None where it is not on the page."""
    page = metrics.render()[0].decode()
    found = [
        sample.value
        for family in text_string_to_metric_families(page)
        for sample in family.samples
        if sample.name == name and labels.items() <= sample.labels.items()
    ]
    assert len(found) <= 1
    return found[0] if found else None


def test_requests_attempts_tokens_and_times_are_counted() -> None:
    metrics = Metrics(now=lambda: NOW)
    failed = Attempt(deployment=PRIMARY, outcome="http-503", ms=5)
    ok = Attempt(deployment=PRIMARY, outcome="ok", ms=5)

    metrics.observe(record(1, attempts=[failed, ok], ttft_ms=200.0, duration_ms=900.0))
    metrics.observe(record(2, outcome="cancelled", status=499, ttft_ms=None))

    labels = {"dialect": "chat", "group": "primary-chat", "deployment": PRIMARY}
    assert value(metrics, "gateway_requests_total", outcome="ok", status="200", **labels) == 1
    assert value(metrics, "gateway_requests_total", outcome="cancelled", **labels) == 1
    assert value(metrics, "gateway_attempts_total", outcome="http-503") == 1
    assert value(metrics, "gateway_tokens_total", kind="prompt", tier="interactive") == 200
    assert value(metrics, "gateway_tokens_total", kind="reasoning", tier="interactive") == 20
    assert value(metrics, "gateway_ttft_seconds_count") == 1
    assert value(metrics, "gateway_ttft_seconds_bucket", le="0.1") == 0
    assert value(metrics, "gateway_ttft_seconds_bucket", le="0.25") == 1
    assert value(metrics, "gateway_duration_seconds_count") == 2
    assert value(metrics, "gateway_queue_seconds_bucket", le="+Inf") == 2


def test_the_state_is_that_of_the_scrape() -> None:
    metrics = Metrics(now=lambda: NOW, lost=lambda: 4)

    assert value(metrics, "gateway_deployment_in_flight", deployment=PRIMARY) == 2
    assert value(metrics, "gateway_deployment_rpm_used", deployment=PRIMARY) == 5
    assert value(metrics, "gateway_deployment_resting", deployment=PRIMARY) == 0
    assert value(metrics, "gateway_deployment_resting", deployment=BURST) == 1
    assert value(metrics, "gateway_deployment_rest_seconds", deployment=BURST) == 12.5
    assert value(metrics, "gateway_waiting", group="primary-chat") == 3
    assert value(metrics, "gateway_records_lost_total") == 4


def test_burst_traffic_is_seen_and_so_is_none() -> None:
    metrics = Metrics(now=lambda: NOW)
    assert value(metrics, "gateway_served_requests_total", tier="burst") == 0
    assert value(metrics, "gateway_attempts_total", deployment=BURST, tier="burst") == 0

    served = Attempt(deployment=BURST, outcome="ok", ms=5)
    metrics.observe(
        record(1, group="burst-nemotron", deployment=BURST, upstream="nebius", attempts=[served])
    )

    assert value(metrics, "gateway_served_requests_total", tier="burst") == 1
    assert value(metrics, "gateway_attempts_total", deployment=BURST, tier="burst") == 1
    assert value(metrics, "gateway_served_requests_total", tier="interactive") == 0


def test_refused_keys_reloads_and_the_revision_are_shown() -> None:
    metrics = Metrics()

    metrics.key_refused()
    metrics.reloaded("rejected")
    metrics.config_loaded("abcdef012345@1234567-dirty", 1_790_000_000.0)

    assert value(metrics, "gateway_keys_refused_total") == 1
    assert value(metrics, "gateway_config_reloads_total", outcome="rejected") == 1
    assert value(metrics, "gateway_config_info", revision="abcdef012345@1234567-dirty") == 1
    assert value(metrics, "gateway_config_loaded_timestamp_seconds") == 1_790_000_000


def test_a_new_revision_takes_the_place_of_the_old_one() -> None:
    metrics = Metrics()
    metrics.config_loaded("one", 1.0)

    metrics.config_loaded("two", 2.0)

    assert value(metrics, "gateway_config_info", revision="one") is None


def test_labels_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics_of, "MAX_SERIES", 10)
    metrics = Metrics()

    for n in range(100):
        attempt = Attempt(deployment=f"d{n}", outcome="ok", ms=1)
        metrics.observe(record(n, group=f"g{n}", attempts=[attempt]))

    page = metrics.render()[0].decode()
    assert page.count("gateway_requests_total{") == 11
    assert page.count("gateway_attempts_total{") == 11
    assert value(metrics, "gateway_requests_total", group="other") == 90


def test_openmetrics_is_spoken_where_asked_for() -> None:
    metrics = Metrics(now=lambda: NOW)
    metrics.observe(record())

    page, content_type = metrics.render("application/openmetrics-text; version=1.0.0")

    assert content_type.startswith("application/openmetrics-text")
    assert list(openmetrics.text_string_to_metric_families(page.decode()))  # type: ignore[no-untyped-call]


def test_counting_a_record_is_cheap() -> None:
    metrics = Metrics()
    records = [record(n) for n in range(5000)]

    started = time.process_time()
    for r in records:
        metrics.observe(r)
    each_us = (time.process_time() - started) / len(records) * 1e6

    assert each_us < 15
