"""A clock that the test moves, for whatever takes the time as a function."""

from __future__ import annotations


class Clock:
    """Seconds since some moment. Call it to read it."""

    def __init__(self, now_s: float = 1000.0) -> None:
        self.now_s = now_s

    def __call__(self) -> float:
        return self.now_s

    def tick(self, seconds: float) -> None:
        """Let time pass."""
        self.now_s += seconds
