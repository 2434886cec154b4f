"""The line: first come, first served, and nothing is lost with those who leave."""

from __future__ import annotations

import asyncio

import pytest

from gateway.line import Line, TooLate


class Shelf:
    """Things that wait to be taken."""

    def __init__(self) -> None:
        self.things: list[str] = []
        self.back: list[str] = []
        self.line: Line[str] = Line(self.back.append)

    def take(self) -> str | None:
        return self.things.pop(0) if self.things else None

    def put(self, *things: str) -> None:
        self.things += things
        self.line.wake()

    def wait(self, seconds: float = 5.0) -> asyncio.Task[str]:
        return asyncio.create_task(self.line.wait(self.take, lambda: None, seconds))


async def queued(shelf: Shelf, count: int) -> None:
    while len(shelf.line) < count:
        await asyncio.sleep(0)


async def test_they_are_served_in_the_order_they_came() -> None:
    shelf = Shelf()
    waiters = []
    for n in range(5):
        waiters.append(shelf.wait())
        await queued(shelf, n + 1)

    shelf.put("first", "second")
    shelf.put("third", "fourth", "fifth")

    assert await asyncio.gather(*waiters) == ["first", "second", "third", "fourth", "fifth"]
    assert len(shelf.line) == 0


async def test_who_leaves_makes_room_and_takes_nothing_along() -> None:
    shelf = Shelf()
    gone, stays = shelf.wait(), shelf.wait()
    await queued(shelf, 2)

    gone.cancel()
    await asyncio.wait([gone])
    shelf.put("thing")

    assert await stays == "thing"
    assert shelf.back == []


async def test_what_came_in_the_very_moment_of_leaving_is_taken_back() -> None:
    shelf = Shelf()
    gone = shelf.wait()
    await queued(shelf, 1)

    shelf.put("thing")
    gone.cancel()
    await asyncio.wait([gone])

    assert gone.cancelled()
    assert shelf.back == ["thing"]


async def test_the_time_runs_out() -> None:
    shelf = Shelf()

    with pytest.raises(TooLate):
        await shelf.line.wait(shelf.take, lambda: None, 0.01)

    assert len(shelf.line) == 0


async def test_an_error_goes_to_the_one_who_asked() -> None:
    shelf = Shelf()

    def fails() -> str | None:
        if not shelf.things:
            return None
        raise LookupError("nobody serves")

    failing = asyncio.create_task(shelf.line.wait(fails, lambda: None, 5.0))
    await queued(shelf, 1)
    other = shelf.wait()
    await queued(shelf, 2)
    shelf.put("thing")

    with pytest.raises(LookupError):
        await failing
    assert await other == "thing"


async def test_a_window_that_opens_by_itself_wakes_the_first() -> None:
    shelf = Shelf()
    opens = iter([0.01, None])
    waiting = asyncio.create_task(shelf.line.wait(shelf.take, lambda: next(opens, None), 5.0))
    await queued(shelf, 1)

    shelf.things.append("thing")  # nobody says so

    assert await waiting == "thing"
