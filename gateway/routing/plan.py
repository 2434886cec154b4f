"""A plan: the groups of one request in order, each once, and how a failed group goes on."""

from __future__ import annotations

from random import Random

from gateway.routing.table import Route, RouteTable, Stage, after

MAX_PAUSE_S = 5.0  # also the longest Retry-After that is waited out


class Plan:
    """Which group comes next. What follows a failed one goes before those already waiting."""

    __slots__ = ("_fallbacks", "_route", "_stages", "_table", "tried")

    def __init__(self, table: RouteTable, route: Route, *, fallbacks: bool) -> None:
        self._table, self._route, self._fallbacks = table, route, fallbacks
        self._stages = [Stage(route.group)]
        self.tried: list[str] = []

    def next(self) -> Stage | None:
        """The next group to try, or None when there is none left."""
        while self._stages:
            stage = self._stages.pop(0)
            if stage.group not in self.tried:
                self.tried.append(stage.group)
                return stage
        return None

    def failed(self, stage: Stage, *, overflow: bool) -> None:
        """The group could not serve, or found the prompt too long."""
        self._stages[:0] = self._after(stage, overflow=overflow)

    def has_more(self, stage: Stage) -> bool:
        """True if another group could still serve after this one."""
        if not self._fallbacks:
            return False
        untried = (s for s in self._stages if s.group not in self.tried)
        return next(untried, None) is not None or bool(self._after(stage, overflow=False))

    def _after(self, stage: Stage, *, overflow: bool) -> list[Stage]:
        following = after(
            self._table, self._route, stage, overflow=overflow, fallbacks=self._fallbacks
        )
        return [s for s in following if s.group not in self.tried]


def pause_s(number: int, random: Random) -> float:
    """The pause before another attempt at the same deployment: growing, with full jitter."""
    return min(0.5 * 2.0**number, MAX_PAUSE_S) * random.random()
