"""A world around the pure slot: engines that load and stop, callers, and a clock that it moves.

It carries out the slot's effects as the acting side does, and holds it, at every step, to what must
never be otherwise: one engine at a time, no load cut short, leases only on an engine that serves.
"""

from __future__ import annotations

import heapq
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any, Literal

from serving.slot.events import (
    Ask,
    Died,
    Down,
    Effect,
    Event,
    FoundNothing,
    FoundRecipe,
    FoundStranger,
    GiveBack,
    Gone,
    Grant,
    Kill,
    Left,
    Ready,
    Refuse,
    Renew,
    Start,
    StartFailed,
    Stop,
    Tick,
    Up,
    WakeAt,
)
from serving.slot.leases import ending
from serving.slot.plain import plain, restored
from serving.slot.state import Rules, Slot
from serving.slot.step import step

RENEW_S = 10.0


@dataclass
class Model:
    """How the engine of one recipe behaves."""

    load_s: float = 2.0
    stop_s: float = 0.5
    ignores_stop: bool = False
    fails: list[bool] = field(default_factory=list)  # of its starts, one after the other; then none
    dies_after_s: float | None = None  # after ready


@dataclass
class Running:
    """An engine that is in the slot: it loads, serves, or is on its way out."""

    recipe: str
    run: int
    state: Literal["loading", "ready", "dead", "leaving"]
    breaks: bool
    ready_at: float
    told: bool = False
    forgotten: bool = False  # its start was not written down: what is known is about one before
    wanted: bool = False  # somebody waited for it, or was told to come back, when it became ready


@dataclass
class Caller:
    """One request for the slot and what became of it."""

    id: str
    recipe: str
    asked_at: float
    wait_s: float
    runs_s: float
    granted_at: float | None = None
    lease_recipe: str | None = None
    refusal: Refuse | None = None
    left: bool = False
    ended: str | None = None

    @property
    def answered(self) -> bool:
        return self.granted_at is not None or self.refusal is not None or self.left


def written_and_read(slot: Slot) -> object:
    """The slot through a file."""
    data: object = json.loads(json.dumps(plain(slot)))
    return data


class World:
    """Engines, callers and time around one slot."""

    def __init__(self, rules: Rules | None = None, seed: int = 1, /, **models: Model) -> None:
        self.rules = rules or Rules()
        self.models = models
        self.random = Random(seed)
        self.slot = Slot()
        self._before = self.slot
        self.now = 1000.0
        self.skew = 0.0  # of the clock that the slot is shown
        self.engine: Running | None = None
        self.callers: dict[str, Caller] = {}
        self.starts: list[str] = []
        self.effects: list[Effect] = []
        self.max_wait_s = 0.0
        self.operated = False  # the operator may end a load and a residency
        self.leapt = False  # a clock that was set ahead may end leases and residencies early
        self._later: list[tuple[float, int, Callable[[], object]]] = []
        self._count = 0
        self._wakes = 0
        self._down = False
        self._dies_for_s: float | None = None
        self.send(FoundNothing())

    # -- time --------------------------------------------------------------------------------

    def later(self, seconds: float, do: Callable[[], object]) -> None:
        """Do it in so many seconds."""
        self._count += 1
        heapq.heappush(self._later, (self.now + seconds, self._count, do))

    def run(self, seconds: float) -> None:
        """Let time pass, with all that happens in it."""
        until = self.now + seconds
        while self._later and self._later[0][0] <= until:
            at, _, do = heapq.heappop(self._later)
            self.now = max(self.now, at)
            do()
        self.now = until

    def set_clock(self, seconds: float) -> None:
        """The clock that the slot is shown leaps."""
        self.skew += seconds
        self.leapt = self.leapt or seconds > 0
        self._report(Tick())

    # -- callers -----------------------------------------------------------------------------

    def ask(
        self, recipe: str, *, wait_s: float = 600.0, swap: bool = True, runs_s: float = 1.0
    ) -> Caller:
        """A caller asks; if it gets a lease it keeps it for `runs_s`."""
        caller = Caller(
            id=f"{len(self.callers)}",
            recipe=recipe,
            asked_at=self.now,
            wait_s=wait_s,
            runs_s=runs_s,
        )
        self.callers[caller.id] = caller
        if self._down:
            caller.left = True  # connection refused
            return caller
        self.send(Ask(id=caller.id, recipe=recipe, may_swap=swap, wait_s=wait_s, holder=caller.id))
        return caller

    def leave(self, caller: Caller) -> None:
        """The caller closes its connection, whether it waits or streams."""
        if not self._down and caller.ended is None and caller.refusal is None:
            caller.left = True
            caller.ended = "left"
            self.send(Left(id=caller.id))

    def _granted(self, effect: Grant) -> None:
        caller = self.callers[effect.waiter]
        assert not caller.answered or caller.left, f"{caller} was answered twice"
        assert self.engine is not None
        assert self.engine.state == "ready"
        assert effect.lease.recipe == self.engine.recipe
        assert caller.recipe in ("active", self.engine.recipe)
        caller.granted_at, caller.lease_recipe = self.now, self.engine.recipe
        self.max_wait_s = max(self.max_wait_s, self.now - caller.asked_at)
        self.later(caller.runs_s, lambda: self._give_back(caller))
        self.later(RENEW_S, lambda: self._renew(caller))

    def _give_back(self, caller: Caller) -> None:
        if caller.ended is not None:
            return
        if self._down:
            self.later(1.0, lambda: self._give_back(caller))  # callers try again
            return
        caller.ended = ending(self.slot, caller.id).how
        self.send(GiveBack(lease=caller.id))

    def _renew(self, caller: Caller) -> None:
        if caller.ended is not None or caller.lease_recipe is None:
            return
        if not self._down:
            self.send(Renew(lease=caller.id, recipe=caller.lease_recipe))
            if caller.id not in self.slot.leases:
                caller.ended = ending(self.slot, caller.id).how
        self.later(RENEW_S, lambda: self._renew(caller))

    def _refused(self, effect: Refuse) -> None:
        caller = self.callers[effect.waiter]
        assert not caller.answered, f"{caller} was answered twice"
        assert effect.retry_after_s >= 1
        caller.refusal = effect
        self.max_wait_s = max(self.max_wait_s, self.now - caller.asked_at)

    # -- engines -----------------------------------------------------------------------------

    def _start(self, effect: Start) -> None:
        assert self.engine is None, f"{effect} while {self.engine} is there"
        model = self.models[effect.recipe]
        nth = self.starts.count(effect.recipe)
        self.starts.append(effect.recipe)
        breaks = nth < len(model.fails) and model.fails[nth]
        engine = Running(effect.recipe, effect.run, "loading", breaks, self.now + model.load_s)
        self.engine = engine
        self.later(model.load_s, lambda: self._loaded(engine))

    def _loaded(self, engine: Running) -> None:
        if self.engine is not engine or engine.state != "loading" or engine.told:
            return
        if engine.breaks:
            engine.state = "dead"
            self._report(StartFailed(run=engine.run, reason="out of memory", log_tail="CUDA"))
            return
        engine.state = "ready"
        engine.ready_at = self.now
        named = {w.recipe for w in self.slot.waiters} | set(self.slot.promises)
        engine.wanted = engine.recipe in named
        self._report(Ready(run=engine.run))
        dies = self.models[engine.recipe].dies_after_s
        if dies is not None:
            self.later(dies, lambda: self.crash(engine))

    def crash(self, engine: Running | None = None) -> None:
        """The engine's main process ends by itself; what belongs to it lives on until the kill."""
        engine = engine or self.engine
        if engine is None or self.engine is not engine or engine.state not in ("loading", "ready"):
            return
        engine.state = "dead"
        self._report(Died(run=engine.run, reason="killed by signal 9"))

    def _stop(self, effect: Stop) -> None:
        engine = self.engine
        assert engine is not None
        assert engine.run == effect.run
        if engine.state == "loading" and not engine.told:
            assert self.operated or engine.forgotten, "a load was cut short"
        if engine.state == "ready" and not (self.operated or self.leapt):
            self._check_that_it_may_go(engine)
        engine.told = True
        model = self.models[engine.recipe]
        if not model.ignores_stop or engine.state == "dead":
            engine.state = "leaving"
            self.later(model.stop_s, lambda: self._gone(engine))

    def _check_that_it_may_go(self, engine: Running) -> None:
        served_s = self.now - engine.ready_at
        assert not engine.wanted or served_s >= self.rules.min_residency_s - 1e-6, "no residency"
        for caller in self.callers.values():
            if caller.granted_at is not None and caller.ended is None:
                assert ending(self.slot, caller.id).how != "unknown", f"{caller} was cut unseen"

    def _kill(self, effect: Kill) -> None:
        engine = self.engine
        assert engine is not None
        assert engine.run == effect.run
        engine.state = "leaving"
        self.later(0.2, lambda: self._gone(engine))

    def _gone(self, engine: Running) -> None:
        if self.engine is engine:
            self.engine = None
            self._report(Gone(run=engine.run))

    def _report(self, event: Event) -> None:
        if not self._down:
            self.send(event)

    # -- the control plane -------------------------------------------------------------------

    def up(self, recipe: str, *, force: bool = False) -> None:
        """The operator asks for a recipe."""
        self.operated = True
        self._report(Up(recipe=recipe, force=force))

    def down(self, *, force: bool = False) -> None:
        """The operator wants the slot empty."""
        self.operated = True
        self._report(Down(force=force))

    def die(self, *, stale: bool = False) -> None:
        """The control plane is killed; what it had written down remains.

        Stale: it had carried out the effects of its last step, but not written it down.
        """
        self._down = True
        if self.engine is not None:
            self.engine.forgotten = self.engine.forgotten or stale
        for caller in self.callers.values():
            if not caller.answered:
                caller.left = True  # the connection is gone
        written = self._before if stale else self.slot
        self.slot = restored(written_and_read(written))

    def die_in_next_step(self, down_s: float) -> None:
        """The control plane is killed when it has written its next step, before it acts."""
        self._dies_for_s = down_s

    def come_back(self) -> None:
        """The control plane starts again, and looks what runs."""
        self._down = False
        engine = self.engine
        if engine is None:
            self.send(FoundNothing())
            return
        engine.run = self.slot.run + 1
        if engine.state == "dead":
            self.send(FoundStranger(what=engine.recipe))
            return
        self.send(FoundRecipe(recipe=engine.recipe, ready=engine.state == "ready"))
        assert self.slot.run == engine.run

    # -- scripts -----------------------------------------------------------------------------

    def happen(self, what: str, *facts: Any) -> None:
        """One line of a script: its name, and what it needs to know."""
        match what:
            case "ask":
                recipe, wait_s, swap, runs_s = facts
                self.ask(recipe, wait_s=wait_s, swap=swap, runs_s=runs_s)
            case "leave":
                if callers := list(self.callers.values()):
                    self.leave(callers[-1 - facts[0] % len(callers)])
            case "crash":
                self.crash()
            case "die":
                when, down_s = facts
                self._happens_to_die(when, down_s)
            case "clock":
                self.set_clock(facts[0])
            case "up":
                self.up(facts[0], force=facts[1])
            case "down":
                self.down(force=facts[0])

    def _happens_to_die(self, when: str, down_s: float) -> None:
        if self._down:
            return
        if when == "before acting":
            self.die_in_next_step(down_s)
            return
        self.die(stale=when == "before writing")
        self.run(down_s)
        self.come_back()

    # -- one step ----------------------------------------------------------------------------

    def send(self, event: Event) -> None:
        """One event, and its effects carried out in their order."""
        self._before = self.slot
        self.slot, effects = step(self.slot, event, self.now + self.skew, self.rules, self.random)
        self._check()
        if self._dies_for_s is not None:
            self.later(self._dies_for_s, self.come_back)
            self._dies_for_s = None
            self.die()
            return
        for effect in effects:
            self.effects.append(effect)
            self._carry_out(effect)

    def _carry_out(self, effect: Effect) -> None:
        match effect:
            case Start():
                self._start(effect)
            case Stop():
                self._stop(effect)
            case Kill():
                self._kill(effect)
            case Grant():
                self._granted(effect)
            case Refuse():
                self._refused(effect)
            case WakeAt():
                self._wake_at(effect.at)

    def _wake_at(self, at: float) -> None:
        self._wakes += 1
        mine = self._wakes

        def wake() -> None:
            if mine == self._wakes and not self._down:
                self.send(Tick())

        assert at > self.now + self.skew
        self.later(at - self.now - self.skew, wake)

    def _check(self) -> None:
        slot = self.slot
        serves = slot.phase in ("ready", "draining")
        assert not slot.leases or serves or not slot.looked
        assert all(lease.recipe == slot.holder for lease in slot.leases.values())
        assert (slot.holder is None) == (slot.phase in ("stopped", "failed"))
        assert all(slot.at - w.since <= self.rules.max_wait_s for w in slot.waiters)
        assert len(slot.waiters) <= self.rules.max_waiting
