"""What `/metrics` shows: requests, rows, tokens, how long rows wait and passes take, memory."""

from __future__ import annotations

from collections.abc import Callable

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    generate_latest,
)

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)


class Metrics:
    """One server's figures, in a registry of its own."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)  # resident memory and CPU seconds
        name = "embeddings"
        self._requests = Counter(
            f"{name}_requests", "Requests, by how they ended", ["code"], registry=self.registry
        )
        self._texts = Counter(f"{name}_texts", "Inputs embedded", registry=self.registry)
        self._tokens = Counter(f"{name}_tokens", "Tokens computed", registry=self.registry)
        self.dropped_rows = Counter(
            f"{name}_dropped_rows", "Rows whose caller had gone", registry=self.registry
        )
        self.waited_s = Histogram(
            f"{name}_waited_seconds",
            "From a row's arrival to its pass",
            buckets=_SECONDS,
            registry=self.registry,
        )
        self._pass_s = Histogram(
            f"{name}_pass_seconds", "One pass", buckets=_SECONDS, registry=self.registry
        )
        self._pass_rows = Histogram(
            f"{name}_pass_rows",
            "Rows in a pass",
            buckets=(1, 2, 4, 8, 16, 32),
            registry=self.registry,
        )

    def gauge(self, name: str, help_text: str, value: Callable[[], float]) -> None:
        """Show a figure that is asked for when somebody looks."""
        Gauge(f"embeddings_{name}", help_text, registry=self.registry).set_function(value)

    def ended(self, code: str) -> None:
        """Count a request by its outcome: ok, gone, or a refusal's code."""
        self._requests.labels(code=code).inc()

    def saw_pass(self, *, rows: int, tokens: int, took_s: float) -> None:
        """Count one pass of the model."""
        self._tokens.inc(tokens)
        self._pass_s.observe(took_s)
        self._pass_rows.observe(rows)

    def answered(self, texts: int) -> None:
        """Count the inputs of a whole answer."""
        self._texts.inc(texts)

    def text(self) -> bytes:
        """The page, in Prometheus's format."""
        return generate_latest(self.registry)
