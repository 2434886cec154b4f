"""What the last hour and the last day looked like, by client, model, tier and task.

Sums come in by the minute; a minute older than an hour is folded into a quarter of an hour. So
the hour is exact to the minute, the day to the quarter, and neither grows with traffic. A record
counts at the time its request ended.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Literal

from gateway.records.record import Record

Window = Literal["1h", "24h"]
WINDOWS: dict[Window, int] = {"1h": 3600, "24h": 86_400}
DIMENSIONS = ("clients", "models", "tiers", "tasks")
TIERS = ("interactive", "auxiliary", "background", "burst")
NOBODY = "-"  # where a record has no group, tier or task
OTHER = "(other)"

_MINUTE_S = 60
_QUARTER_S = 900
# Names come from the file, so this is never met unless the file is changed all day long.
_MAX_KEYS = 512
# Times to the first content are counted in cells that grow by 5 %: a percentile is that exact.
_CELL = math.log(1.05)

Key = tuple[str, str, str, str]  # client, model group, its tier, task


def key_of(record: Record, tier: str | None) -> Key:
    """What a record is counted under; `tier` is that of the group that served it."""
    return (record.client, record.group or NOBODY, tier or NOBODY, record.task or NOBODY)


@dataclass(slots=True)
class Totals:
    """Sums over some requests."""

    requests: int = 0
    ok: int = 0
    failed: int = 0
    cancelled: int = 0
    refused: int = 0
    attempts: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    completion_tokens: int = 0
    reasoning_tokens: int = 0
    estimated_tokens: int = 0
    tok_s_sum: float = 0.0
    tok_s_count: int = 0
    ttft_cells: dict[int, int] = field(default_factory=dict)

    def add(self, record: Record) -> None:
        # Once a request, in its path: names with nothing to add are not touched.
        self.requests += 1
        self.attempts += len(record.attempts)
        outcome = record.outcome
        if outcome == "ok":
            self.ok += 1
        elif outcome == "failed":
            self.failed += 1
        elif outcome == "cancelled":
            self.cancelled += 1
        else:
            self.refused += 1
        if record.prompt_tokens:
            self.prompt_tokens += record.prompt_tokens
        if record.cached_tokens:
            self.cached_tokens += record.cached_tokens
        if record.completion_tokens:
            self.completion_tokens += record.completion_tokens
        if record.reasoning_tokens:
            self.reasoning_tokens += record.reasoning_tokens
        if record.estimated:
            self.estimated_tokens += (record.prompt_tokens or 0) + (record.completion_tokens or 0)
        if record.tok_s is not None:
            self.tok_s_sum += record.tok_s
            self.tok_s_count += 1
        if record.ttft_ms is not None:
            cell = int(math.log(max(record.ttft_ms, 1.0)) / _CELL)
            self.ttft_cells[cell] = self.ttft_cells.get(cell, 0) + 1

    def merge(self, other: Totals) -> None:
        self.requests += other.requests
        self.ok += other.ok
        self.failed += other.failed
        self.cancelled += other.cancelled
        self.refused += other.refused
        self.attempts += other.attempts
        self.prompt_tokens += other.prompt_tokens
        self.cached_tokens += other.cached_tokens
        self.completion_tokens += other.completion_tokens
        self.reasoning_tokens += other.reasoning_tokens
        self.estimated_tokens += other.estimated_tokens
        self.tok_s_sum += other.tok_s_sum
        self.tok_s_count += other.tok_s_count
        for cell, count in other.ttft_cells.items():
            self.ttft_cells[cell] = self.ttft_cells.get(cell, 0) + count

    def ttft_ms(self, share: float) -> float | None:
        """The time to the first content that this share of requests stayed below."""
        rank = share * sum(self.ttft_cells.values())
        for cell in sorted(self.ttft_cells):
            rank -= self.ttft_cells[cell]
            if rank <= 0:
                return round(math.exp((cell + 0.5) * _CELL), 1)
        return None

    def as_data(self) -> dict[str, Any]:
        """The sums as a client of `/api/activity` sees them."""
        speed = round(self.tok_s_sum / self.tok_s_count, 1) if self.tok_s_count else None
        return {
            "requests": self.requests,
            "ok": self.ok,
            "failed": self.failed,
            "cancelled": self.cancelled,
            "refused": self.refused,
            "attempts": self.attempts,
            "prompt_tokens": self.prompt_tokens,
            "cached_tokens": self.cached_tokens,
            "completion_tokens": self.completion_tokens,
            "reasoning_tokens": self.reasoning_tokens,
            "avg_tok_s": speed,
            "ttft_p50_ms": self.ttft_ms(0.50),
            "ttft_p95_ms": self.ttft_ms(0.95),
        }


@dataclass(slots=True)
class _Bucket:
    start: int
    totals: dict[Key, Totals] = field(default_factory=dict)

    def of(self, key: Key) -> Totals:
        found = self.totals.get(key)
        if found is None:
            if len(self.totals) >= _MAX_KEYS:
                key = (OTHER, OTHER, OTHER, OTHER)
            found = self.totals.setdefault(key, Totals())
        return found


class RollUps:
    """The sums of the last hour and day. Not locked: one caller at a time."""

    def __init__(self) -> None:
        self._minutes: deque[_Bucket] = deque()
        self._quarters: deque[_Bucket] = deque()

    def add(self, minute: int, key: Key, totals: Totals) -> None:
        """Count sums of requests that ended in this minute (since 1970)."""
        start = minute * _MINUTE_S
        minutes = self._minutes
        if not minutes or minutes[-1].start < start:
            minutes.append(_Bucket(start))
            self._fold(start)
        # What ended just before something that is counted already joins it.
        minutes[-1].of(key).merge(totals)

    def read(self, window: Window, now: float) -> dict[str, Any]:
        """Sums of a window: all together, and by each dimension."""
        total = Totals()
        parts: dict[str, dict[str, Totals]] = {name: {} for name in DIMENSIONS}
        # The tiers are always there, so that no burst traffic shows as a zero.
        parts["tiers"] = {tier: Totals() for tier in TIERS}
        for key, totals in self._in_window(window, now - WINDOWS[window]):
            total.merge(totals)
            for name, value in zip(DIMENSIONS, key, strict=True):
                if value != NOBODY:
                    parts[name].setdefault(value, Totals()).merge(totals)
        return {
            "total": total.as_data(),
            **{n: {k: t.as_data() for k, t in sorted(part.items())} for n, part in parts.items()},
        }

    def _in_window(self, window: Window, since: float) -> Iterable[tuple[Key, Totals]]:
        # Quarters hold only what is older than an hour, even where they reach into it.
        for bucket in self._quarters if window == "24h" else ():
            if bucket.start + _QUARTER_S > since:
                yield from bucket.totals.items()
        for bucket in self._minutes:
            if bucket.start + _MINUTE_S > since:
                yield from bucket.totals.items()

    def _fold(self, now: int) -> None:
        while self._minutes[0].start + _MINUTE_S <= now - WINDOWS["1h"]:
            old = self._minutes.popleft()
            start = old.start // _QUARTER_S * _QUARTER_S
            if not self._quarters or self._quarters[-1].start != start:
                self._quarters.append(_Bucket(start))
            for key, totals in old.totals.items():
                self._quarters[-1].of(key).merge(totals)
        while self._quarters and self._quarters[0].start + _QUARTER_S <= now - WINDOWS["24h"]:
            self._quarters.popleft()
