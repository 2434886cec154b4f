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
from typing import Literal

from serving.slot.events import (
    Ask,
    Died,
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


@dataclass
class Caller:
    """One request for the slot and what became of it."""

    id: str
    recipe: str
    asked_at: float
    wait_s: float
    runs_s: float
    operator_came: bool = False
    granted_at: float | None = None
    lease_recipe: str | None = None
    refusal: Refuse | None = None
    left: bool = False
    ended: str | None = None

    @property
    def answered(self) -> bool:
        return self.granted_at is not None or self.refusal is not None or self.left


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
        self.forced = False  # the operator may end a load
        self.cut: set[int] = set()
        self._later: list[tuple[float, int, Callable[[], object]]] = []
        self._count = 0
        self._wakes = 0
        self._down = False
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
        self.send(Tick())

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
            assert self.forced, "a load was cut short"
        engine.told = True
        model = self.models[engine.recipe]
        if not model.ignores_stop or engine.state == "dead":
            engine.state = "leaving"
            self.later(model.stop_s, lambda: self._gone(engine))

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
        self.forced = self.forced or force
        self.send(Up(recipe=recipe, force=force))

    def die(self, *, stale: bool = False) -> None:
        """The control plane is killed; what it had written down remains.

        Stale: it had carried out the effects of its last step, but not written it down.
        """
        self._down = True
        for caller in self.callers.values():
            if not caller.answered:
                caller.left = True  # the connection is gone
        written = self._before if stale else self.slot
        self.slot = restored(json.loads(json.dumps(plain(written))))

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

    # -- one step ----------------------------------------------------------------------------

    def send(self, event: Event) -> None:
        """One event, and its effects carried out in their order."""
        self._before = self.slot
        self.slot, effects = step(self.slot, event, self.now + self.skew, self.rules, self.random)
        self._check()
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
        assert plain(restored(json.loads(json.dumps(plain(slot))))) is not None
