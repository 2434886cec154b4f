"""From turns to figures: medians over the rounds, and the ratios that are to be reached."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Literal

from bench.rounds import Cell, Measured, Turn

Figure = Callable[[Turn], float | None]


def _of(turn: Turn, clients: int, *, stream: bool = False) -> Measured:
    return next(m for m in turn.cells if m.cell == Cell(clients, stream))


def rps(clients: int) -> Figure:
    """Requests per second, not streamed."""
    return lambda turn: _of(turn, clients).seen.rps


def chunks_s(clients: int) -> Figure:
    """Content events per second over all streams."""
    return lambda turn: _of(turn, clients, stream=True).seen.chunks_s


def p50_ms(turn: Turn) -> float | None:
    """Median latency of one client, the upstream's own included."""
    return _of(turn, 1).seen.p50_ms


def cpu_us_per_request(turn: Turn) -> float | None:
    """CPU microseconds of a request, not streamed, at 64 clients."""
    return _of(turn, 64).cpu_us_per_request


def cpu_us_per_chunk(turn: Turn) -> float | None:
    """CPU microseconds of a content event at 64 streams, the request's share included."""
    return _of(turn, 64, stream=True).cpu_us_per_chunk


class Figures:
    """All turns of a run, asked by contender."""

    def __init__(self, turns: Sequence[Turn]) -> None:
        self.turns = tuple(turns)
        self.names = tuple(dict.fromkeys(turn.contender for turn in turns))

    def of(self, contender: str) -> list[Turn]:
        """Its turns, one a round, in the order of rounds."""
        return sorted((t for t in self.turns if t.contender == contender), key=lambda t: t.round)

    def middle(self, contender: str, figure: Figure) -> float | None:
        """The median over the rounds; None where nothing was measured."""
        values = [v for turn in self.of(contender) if (v := figure(turn)) is not None]
        return median(values) if values else None

    def spread(self, contender: str, figure: Figure) -> float | None:
        """The largest over the smallest of the rounds: what noise alone made of one figure."""
        values = [v for turn in self.of(contender) if (v := figure(turn))]
        return max(values) / min(values) if values else None

    def ratio(self, contender: str, other: str, figure: Figure) -> float | None:
        """The median of each round's own ratio: neighbours in time share the same noise."""
        return self._paired(contender, other, figure, lambda a, b: a / b if b else None)

    def added(self, contender: str, other: str, figure: Figure) -> float | None:
        """The median of each round's own difference."""
        return self._paired(contender, other, figure, lambda a, b: a - b)

    def _paired(
        self, one: str, two: str, figure: Figure, join: Callable[[float, float], float | None]
    ) -> float | None:
        others = {turn.round: figure(turn) for turn in self.of(two)}
        joined: list[float] = []
        for turn in self.of(one):
            mine, theirs = figure(turn), others.get(turn.round)
            if mine is not None and theirs is not None:
                value = join(mine, theirs)
                joined += [] if value is None else [value]
        return median(joined) if joined else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A figure of the gateway to reach, and the further one that the project aims at."""

    name: str
    measure: Callable[[Figures], float | None]
    sense: Literal["at least", "at most"]
    target: float | None
    aim: float | None = None
    unit: str = "x"

    def is_met(self, value: float, bound: float) -> bool:
        """True if the value is on the right side of the bound."""
        return value >= bound if self.sense == "at least" else value <= bound


def _against(other: str, figure: Figure) -> Callable[[Figures], float | None]:
    return lambda figures: figures.ratio("gateway", other, figure)


def _idle_mb(turn: Turn) -> float | None:
    return turn.idle_mb


def _records_per_request(turn: Turn) -> float | None:
    return None if turn.records is None else turn.records / turn.requests


TARGETS = (
    Target(
        name="requests/s at 64, over litellm",
        measure=_against("litellm", rps(64)),
        sense="at least",
        target=45,
    ),
    Target(
        name="chunks/s at 64, over litellm",
        measure=_against("litellm", chunks_s(64)),
        sense="at least",
        target=110,
    ),
    Target(
        name="requests/s at 64, over vllm-router",
        measure=_against("vllm-router", rps(64)),
        sense="at least",
        target=0.45,
        aim=1.2,
    ),
    Target(
        name="chunks/s at 64, over vllm-router",
        measure=_against("vllm-router", chunks_s(64)),
        sense="at least",
        target=1.4,
        aim=1.8,
    ),
    # The same two by CPU time: what else runs on the machine moves these far less.
    Target(
        name="  by CPU per request, over vllm-router",
        measure=lambda figures: figures.ratio("vllm-router", "gateway", cpu_us_per_request),
        sense="at least",
        target=None,
    ),
    Target(
        name="  by CPU per chunk, over vllm-router",
        measure=lambda figures: figures.ratio("vllm-router", "gateway", cpu_us_per_chunk),
        sense="at least",
        target=None,
    ),
    Target(
        name="CPU per request at 64, over nginx",
        measure=_against("nginx", cpu_us_per_request),
        sense="at most",
        target=None,
        aim=5,
    ),
    Target(
        name="added p50 at 1 client",
        measure=lambda figures: figures.added("gateway", "direct", p50_ms),
        sense="at most",
        target=0.6,
        aim=0.45,
        unit=" ms",
    ),
    Target(
        name="idle memory, nothing bridged",
        measure=lambda figures: figures.middle("gateway", _idle_mb),
        sense="at most",
        target=120,
        unit=" MB",
    ),
    Target(
        name="records per request, each round",
        measure=lambda figures: _worst(figures, _records_per_request),
        sense="at least",
        target=1,
        unit="",
    ),
)


def _worst(figures: Figures, figure: Figure) -> float | None:
    """The value furthest below 1, or 0 where one is above: two records are as wrong as none."""
    values = [v for turn in figures.of("gateway") if (v := figure(turn)) is not None]
    if not values:
        return None
    return min(values) if max(values) <= 1 else 0.0
