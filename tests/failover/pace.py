"""One common factor for all times: a loop whose seconds are shorter than those of the wall.

The file under test keeps the settings of the scenarios to the letter (30 s, 12 s, 10 s), and so do
the scripted upstream's pauses; the loop that gateway, upstream and caller share hurries. At a
factor of 1 the loop is the one that serves in production.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable

import uvloop

from tests.clock import Clock

# 76 s of calls (F15) take 15 s; 100 ms of noise on a busy machine are then half a second.
FACTOR = 5.0


class _Hurried(selectors.EpollSelector):
    """Waits a fraction of the time that it is asked to."""

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        return super().select(None if timeout is None else timeout / FACTOR)


class HurriedLoop(asyncio.SelectorEventLoop):
    """A loop that counts `FACTOR` seconds to each second of the wall."""

    def __init__(self) -> None:
        super().__init__(_Hurried())

    def time(self) -> float:
        return super().time() * FACTOR


class LoopClock(Clock):
    """The steady clock of the running loop, for whatever takes the time as a function."""

    def __call__(self) -> float:
        return asyncio.get_running_loop().time()


def loop_maker(full: bool) -> Callable[[], asyncio.AbstractEventLoop]:
    """The loop of a run: unscaled if it is a full one."""
    return uvloop.new_event_loop if full else HurriedLoop


def now_s() -> float:
    """Now, in the seconds of the running loop."""
    return asyncio.get_running_loop().time()


async def later(seconds: float) -> None:
    """Wait for a time that belongs to the case: until the next call is due, or a rest is over."""
    await asyncio.sleep(max(0.0, seconds))
