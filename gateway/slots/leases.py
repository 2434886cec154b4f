"""The leases that the gateway holds: each renewed while its request runs, and given back once."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, Final

import structlog

from gateway.slots.control import Control, Unreachable
from gateway.slots.said import Granted

RENEW_S: Final = 10.0  # a lease lives 30 s without
_TRIES: Final = 4  # of one renewal, a fifth of its time apart
_CLOSE_S: Final = 3.0
_log = structlog.get_logger("gateway")


class Lease:
    """One lease. `lost` once a renewal was told so: the engine may go away under the answer."""

    __slots__ = ("control", "ending", "granted", "holder", "lost")

    def __init__(self, control: Control, granted: Granted, holder: str) -> None:
        self.control, self.granted, self.holder = control, granted, holder
        self.lost = False
        self.ending: asyncio.Task[str] | None = None

    def row(self) -> dict[str, str]:
        """What a renewal says of it."""
        return {
            "lease": self.granted.lease,
            "recipe": self.granted.recipe,
            "holder": self.holder,
        }


class Leases:
    """Every lease of the process, whatever revision of the file its request began with."""

    def __init__(self, renew_s: float = RENEW_S) -> None:
        self.renew_s = renew_s
        self.lost = 0  # renewals that were told so
        self._controls: dict[tuple[str, str | None], Control] = {}
        self._held: set[Lease] = set()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._timer: asyncio.TimerHandle | None = None

    @property
    def held(self) -> int:
        """How many run now."""
        return len(self._held)

    def control(self, url: str, key: str | None) -> Control:
        """The control plane at an address."""
        control = self._controls.get((url, key))
        if control is None:
            control = self._controls[url, key] = Control(url, key)
        return control

    def take(self, control: Control, granted: Granted, holder: str) -> Lease:
        """Keep a granted lease renewed until it is given back."""
        lease = Lease(control, granted, holder)
        self._held.add(lease)
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(self.renew_s, self._due)
        return lease

    def give_back(self, lease: Lease) -> asyncio.Task[str]:
        """Give a lease back, in a task of its own; its result says how the lease ended."""
        if lease.ending is None:
            self._held.discard(lease)
            lease.ending = self._spawn(_end(lease))
        return lease.ending

    async def close(self) -> None:
        """See every lease given back; nothing is held after it."""
        if self._timer is not None:
            self._timer.cancel()
        for lease in tuple(self._held):
            self.give_back(lease)
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=_CLOSE_S)
        for task in self._tasks:
            task.cancel()
        for control in self._controls.values():
            await control.close()

    def _spawn(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def _due(self) -> None:
        """Renew what is held; without a lease the timer rests."""
        self._timer = None
        if self._held:
            self._timer = asyncio.get_running_loop().call_later(self.renew_s, self._due)
        for control in {lease.control for lease in self._held}:
            self._spawn(self._renew(control))

    async def _renew(self, control: Control) -> None:
        for _ in range(_TRIES):
            held = {x.granted.lease: x for x in self._held if x.control is control and not x.lost}
            if not held:
                return
            try:
                lost = await control.renew([lease.row() for lease in held.values()])
            except Unreachable:
                await asyncio.sleep(self.renew_s / (_TRIES + 1))
                continue
            for lease in [held[name] for name in lost if name in held]:
                lease.lost = True
                self.lost += 1
                _log.warning("lease lost", id=lease.holder, recipe=lease.granted.recipe)
            return


async def _end(lease: Lease) -> str:
    """How a lease ended, by the control plane; "unreachable" where it cannot be asked."""
    try:
        return await lease.control.give_back(lease.granted.lease)
    except Unreachable:
        return "unreachable"  # it runs out by itself
