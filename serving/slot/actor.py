"""Events in, effects out: the slot decides (step.py), this carries it out.

Everything here runs on one loop. A start, a stop and the watch over a running engine are tasks;
each reports with an event, and what is out of date by then changes nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from random import Random
from typing import Any

import structlog

from serving.engines.engine import Overrides
from serving.slot import events, leases
from serving.slot.containers import DockerFailed
from serving.slot.family import CannotStart
from serving.slot.find import Found, find
from serving.slot.notes import Notes
from serving.slot.room import Room
from serving.slot.settings import Settings
from serving.slot.shelf import Shelf
from serving.slot.state import Ended, Lease, Rules, Slot
from serving.slot.step import step

_log = structlog.get_logger("slot")
_TAIL_LINES = 20
_BACK_S = 3
_LOG_S = 2.0
_ADOPTED_S = 5.0  # an engine found after its time was over may have become ready long ago


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """No lease: why, and when to come back."""

    code: events.Code
    reason: str
    retry_after_s: int


class Actor:
    """Owns the slot. `begin` looks what runs; `end` leaves the engine as it is."""

    def __init__(
        self,
        settings: Settings,
        shelf: Shelf,
        room: Room,
        *,
        clock: Callable[[], float] = time.monotonic,
        random: Random | None = None,
    ) -> None:
        self.settings = settings
        self.shelf = shelf
        self.room = room
        self.seen = ""  # what the start that goes on waits for
        self._notes = Notes(room.journal)
        self._clock = clock
        self._random = random or Random()  # noqa: S311 - jitter
        self._tasks: set[asyncio.Task[None]] = set()
        self._engine: asyncio.Task[None] | None = None  # the start, then the watch
        self._kill = asyncio.Event()
        self._stopping: int | None = None  # the run whose stop goes on
        self._waiting: dict[str, asyncio.Future[Lease | Refused]] = {}
        self._wake: asyncio.TimerHandle | None = None
        self.slot = self._notes.recall()
        self.read_rules()

    def read_rules(self) -> None:
        """Take the rules anew: the recipes say how long each engine may take to stop."""
        self.rules: Rules = self.settings.rules.of_slot(self.shelf.stop_graces_s())

    async def begin(self) -> None:
        """Find what runs, and adopt it."""
        try:
            found: Found = await find(self.room)
        except (CannotStart, DockerFailed) as error:
            _log.error("something runs that does not end", reason=str(error))
            found = events.FoundNothing()  # each start tries again to end it, before it starts
        self.send(found)
        if isinstance(found, events.FoundRecipe) and self.slot.phase != "stopping":
            self._engine = self._task(self._adopted(found, self.slot.run))

    def close(self) -> None:
        """Answer everyone who waits: the next process will be there in a moment."""
        for waiting in self._waiting.values():
            if not waiting.done():
                said = "the control plane restarts"
                waiting.set_result(Refused(code="loading", reason=said, retry_after_s=_BACK_S))

    async def end(self) -> None:
        """Stop acting. The engine runs on, and the next process adopts it."""
        if self._wake is not None:
            self._wake.cancel()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self.room.holder is not None:
            self.room.holder.let_go()

    # -- what the outside asks ---------------------------------------------------------------------

    async def lease(self, ask: events.Ask) -> Lease | Refused:
        """A lease, or why there is none. Cancelled: the caller has left, and holds nothing."""
        answer: asyncio.Future[Lease | Refused] = asyncio.get_running_loop().create_future()
        self._waiting[ask.id] = answer
        try:
            self.send(ask)
            return await answer
        except asyncio.CancelledError:
            self.send(events.Left(id=ask.id))
            raise
        finally:
            self._waiting.pop(ask.id, None)

    def left(self, id_: str) -> None:
        """A caller went before it could read its answer."""
        self.send(events.Left(id=id_))

    def give_back(self, lease: str) -> Ended:
        """How this lease ended."""
        self.now()
        ended = leases.ending(self.slot, lease)
        self.send(events.GiveBack(lease=lease))
        return ended

    def renew(self, lease: str, recipe: str, holder: str) -> bool:
        """Whether the lease lives on."""
        self.send(events.Renew(lease=lease, recipe=recipe, holder=holder))
        return lease in self.slot.leases

    def now(self) -> Slot:
        """The slot at this moment."""
        self.send(events.Tick())
        return self.slot

    def low_memory(self, reason: str) -> None:
        """Stop the engine: its recipe says that it goes when memory is low."""
        self.send(events.Died(run=self.slot.run, reason=reason, log_tail=self._tail()))
        self.send(events.Down())  # it does not come back by itself, only when somebody asks

    # -- one step ----------------------------------------------------------------------------------

    def send(self, event: events.Event) -> None:
        """One step of the slot, and what it says is to be done."""
        before = self.slot
        self.slot, effects = step(before, event, self._clock(), self.rules, self._random)
        if self.slot.phase != before.phase or self.slot.run != before.run:
            self._moved()
        self._notes.save(self.slot, self.active())
        for effect in effects:
            self._carry_out(effect)

    def _moved(self) -> None:
        slot = self.slot
        _log.info(
            "slot", phase=slot.phase, recipe=slot.holder, target=slot.target, reason=slot.reason
        )

    def _carry_out(self, effect: events.Effect) -> None:
        match effect:
            case events.Start():
                self._engine = self._task(self._start(effect))
            case events.Stop():
                self._begin_stop(effect.run)
            case events.Kill():
                self._end_by_force(effect)
            case events.Grant():
                self._answer(effect.waiter, effect.lease)
            case events.Refuse():
                refused = Refused(
                    code=effect.code, reason=effect.reason, retry_after_s=effect.retry_after_s
                )
                self._answer(effect.waiter, refused)
            case events.WakeAt():
                self._wake_at(effect.at)

    def _end_by_force(self, effect: events.Kill) -> None:
        """A stop that goes on becomes a kill; a dead engine's rest is ended at once."""
        if self._stopping != effect.run:
            self._begin_stop(effect.run)
        self._kill.set()

    def _begin_stop(self, run: int) -> None:
        self._stopping, self._kill = run, asyncio.Event()
        self._task(self._stop(run, self._kill, self._engine))

    def _answer(self, id_: str, answer: Lease | Refused) -> None:
        waiting = self._waiting.get(id_)
        if waiting is not None and not waiting.done():
            waiting.set_result(answer)

    def _wake_at(self, at: float) -> None:
        if self._wake is not None:
            self._wake.cancel()
        in_s = max(0.0, at - self._clock())
        self._wake = asyncio.get_running_loop().call_later(in_s, self.send, events.Tick())

    def active(self) -> dict[str, Any]:
        """What is loaded, for other programs: recipe, model, where."""
        recipe = self.shelf.last(self.slot.holder)
        url = None if recipe is None else f"{self.room.target(recipe).url}/v1"
        return {
            "phase": self.slot.phase,
            "recipe": self.slot.holder,
            "served_name": recipe.served_name if recipe else None,
            "port": recipe.port if recipe else None,
            "url": url,
        }

    # -- tasks -------------------------------------------------------------------------------------

    def _task(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)
        return task

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.error("task broke", exc_info=error)

    async def _start(self, effect: events.Start) -> None:
        overrides = Overrides(**effect.overrides)  # type: ignore[arg-type]  # checked by the api
        try:
            await self.room.start(effect.recipe, overrides, self._said)
        except (CannotStart, DockerFailed, OSError) as error:
            self._failed(effect.run, str(error))
            return
        self.send(events.Ready(run=effect.run))
        await self._watch(effect.run)

    async def _adopted(self, found: events.FoundRecipe, run: int) -> None:
        if not found.ready:
            try:
                recipe = self.shelf.every[found.recipe]
                await self.room.until_ready(recipe, self._said, at_least_s=_ADOPTED_S)
            except CannotStart as error:
                self._failed(run, str(error))
                return
            self.send(events.Ready(run=run))
        await self._watch(run)

    def _failed(self, run: int, reason: str) -> None:
        _log.warning("start failed", recipe=self.slot.holder, reason=reason)
        self.send(events.StartFailed(run=run, reason=reason, log_tail=self._tail()))

    async def _watch(self, run: int) -> None:
        holder = self.room.holder
        if holder is None:
            return
        how = await holder.ended()
        _log.warning("engine died", recipe=self.slot.holder, how=how)
        # Who uses it must hear of it, also where docker hangs: `stop` tries the log again.
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(holder.keep_log(), _LOG_S)
        self.send(events.Died(run=run, reason=how, log_tail=self._tail()))

    async def _stop(self, run: int, kill: asyncio.Event, engine: asyncio.Task[None] | None) -> None:
        try:
            if engine is not None:
                engine.cancel()
                await asyncio.gather(engine, return_exceptions=True)
            await self.room.stop(kill)
        finally:
            self._stopping = None  # a stop that broke is begun anew by the next Kill
        self.seen = ""
        self.send(events.Gone(run=run))

    def _said(self, seen: str) -> None:
        if seen != self.seen:
            self.seen = seen
            _log.info("start", recipe=self.slot.holder, seen=seen)

    def _tail(self) -> str:
        return "\n".join(self.room.tail(_TAIL_LINES))
