"""A line: those who wait for a thing, served first come, first served.

Nothing here knows what they wait for. Whoever brings news calls `wake`; each waiter in turn then
asks its own question again. A newcomer is the last of the line.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass(slots=True, eq=False)
class _Waiter(Generic[T]):
    ask: Callable[[], T | None]
    opens_in: Callable[[], float | None]
    picky: bool
    got: asyncio.Future[T]


class TooLate(Exception):
    """The time ran out before its turn came."""


class Line(Generic[T]):
    """One line."""

    def __init__(self, unwanted: Callable[[T], None]) -> None:
        self._unwanted = unwanted  # takes back what came for somebody who has just left
        self._waiters: deque[_Waiter[T]] = deque()
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._waiters)

    async def wait(
        self,
        ask: Callable[[], T | None],
        opens_in: Callable[[], float | None],
        seconds: float,
        *,
        picky: bool = False,
    ) -> T:
        """What `ask` gives once it gives something, or raises. Raises TooLate after `seconds`.

        `opens_in` tells the first of the line when to ask again without news: seconds, or None.
        A `picky` waiter may go on waiting while the next in line is served: what is free is not
        what it can use.
        """
        got: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        waiter = _Waiter(ask, opens_in, picky, got)
        self._waiters.append(waiter)
        self.wake()
        try:
            async with asyncio.timeout(seconds):
                return await got
        except TimeoutError:
            if _has(got):  # in the very moment the time ran out
                return got.result()
            raise TooLate from None
        except asyncio.CancelledError:
            if _has(got):  # in the very moment it left
                self._unwanted(got.result())
            raise
        finally:
            if waiter in self._waiters:
                self._waiters.remove(waiter)
                self.wake()

    def wake(self) -> None:
        """Something changed: ask again, from the first to whoever cannot be served."""
        for waiter in tuple(self._waiters):
            if not waiter.got.done():
                try:
                    found = waiter.ask()
                except Exception as answer:  # noqa: BLE001 -- handed on to whoever waits for it
                    waiter.got.set_exception(answer)
                else:
                    if found is None and waiter.picky:
                        continue
                    if found is None:
                        break
                    waiter.got.set_result(found)
            self._waiters.remove(waiter)
        self._set_timer()

    def _set_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        seconds = self._waiters[0].opens_in() if self._waiters else None
        if seconds is not None:
            # A little later than that: timers may ring a little early.
            self._timer = asyncio.get_running_loop().call_later(seconds + 0.001, self.wake)


def _has(got: asyncio.Future[T]) -> bool:
    return got.done() and not got.cancelled() and got.exception() is None
