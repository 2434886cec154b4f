"""The place of the one engine: what must be true before a start, the start, the watch, the end.

A start, in order: nothing else runs (strays of earlier starts, containers of any recipe); the
machine has what the recipe needs (files, GPUs, memory, the port); the log is there; the mark is
noted; the command runs; the engine is ready (probe.py).
"""

from __future__ import annotations

import asyncio
import os
import secrets
import subprocess
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import structlog

from serving.engines.engine import Launch, Overrides
from serving.engines.engines import ENGINES, launch, missing
from serving.engines.engines import containers as default_containers
from serving.errors import Unusable
from serving.recipes.recipe import Recipe
from serving.slot import family, gpus, keep, memory, probe, proc
from serving.slot.containers import Docker, DockerFailed
from serving.slot.family import CannotStart, Mark
from serving.slot.holder import Holder
from serving.slot.host import host_of
from serving.slot.journal import ENGINE, Journal
from serving.slot.settings import Settings
from serving.slot.shelf import Shelf

_log = structlog.get_logger("slot")
_PAUSE_S: Final = 0.2  # between two looks at memory, which tells nobody that it is free
_MORE_S: Final = 30.0  # for what was killed to be really gone


@dataclass(slots=True)
class Room:
    """At most one engine. `holder` is it; None where nothing is known to run."""

    settings: Settings
    shelf: Shelf
    journal: Journal
    logs: keep.Logs
    docker: Docker
    folder: Path  # run/slot, absolute: engines carry it in their environment
    holder: Holder | None = None
    gpus_said: str = ""

    async def start(self, id_: str, overrides: Overrides, said: Callable[[str], None]) -> None:
        """Start this recipe's engine and return once it serves. Raises CannotStart.

        Cancelled or failed, it leaves the engine to `stop`.
        """
        recipe = self.shelf.every.get(id_)
        if recipe is None:
            raise CannotStart(f"there is no recipe {id_} any more")
        launched = self._launch(recipe, overrides)
        said("stopping what else runs")
        await self.clear(launched)
        said("waiting for memory")
        await self._check_machine(recipe)
        self._check_port(launched.port)
        said("starting")
        self._spawn(recipe, launched)
        await self.until_ready(recipe, said)

    def _launch(self, recipe: Recipe, overrides: Overrides) -> Launch:
        try:
            launched = launch(recipe, host_of(self.settings), overrides)
        except Unusable as error:
            raise CannotStart(str(error)) from error
        if lacks := missing(launched):
            raise CannotStart("; ".join(lacks))
        return launched

    async def clear(self, launched: Launch | None = None) -> None:
        """End everything else that may hold the GPU; its logs are kept first. CannotStart."""
        for mark in family.strays(self.folder, None):
            _log.warning("stray", recipe=mark.recipe, pid=mark.pid)
            await self.end(Holder(mark, self.docker))
        owners = self.containers()
        try:
            running = await self.docker.running(owners)
            # An ended container of the same name would be in the new one's way.
            left = await self.docker.left(launched.names) if launched else []
        except DockerFailed as error:
            raise CannotStart(
                f"nobody knows whether a container holds the GPU ({error}); where there are none, "
                'say `docker: ""` in the slot file'
            ) from error
        for name in {*running, *left}:
            _log.warning("container in the way", container=name)
            await self.end(self.foreign(name, owners.get(name) or launched))

    def containers(self) -> dict[str, Launch | None]:
        """Every container that an engine has by default, or that a recipe of this folder names."""
        found: dict[str, Launch | None] = dict.fromkeys(default_containers())
        for recipe in self.shelf.every.values():
            try:
                launched = launch(recipe, host_of(self.settings))
            except Unusable:
                continue
            found |= dict.fromkeys(launched.names, launched)
        return found

    def foreign(self, name: str, launched: Launch | None) -> Holder:
        log = self.logs.begin(name)
        mark = self._mark(name, 0, log, (name,))
        stops = [step for step in launched.stop if name in step] if launched else []
        stops = stops or [(self.docker.program, "rm", "--force", name)]
        return Holder(mark, self.docker, stops=stops, logs=(self.docker.program, "logs", name))

    async def end(self, holder: Holder) -> None:
        kill = asyncio.Event()
        ending = asyncio.create_task(holder.stop(kill))
        try:
            done, _ = await asyncio.wait({ending}, timeout=self.settings.rules.stop_grace_s)
            if not done:
                kill.set()
                done, _ = await asyncio.wait({ending}, timeout=_MORE_S)
            if not done:
                raise CannotStart(f"{holder.mark.recipe} does not end: see who holds it")
            ending.result()
        finally:
            ending.cancel()
            await asyncio.gather(ending, return_exceptions=True)

    async def _check_machine(self, recipe: Recipe) -> None:
        cards = await gpus.look(self.settings.gpus, self.settings.host.nvidia_smi)
        self.gpus_said = cards.said
        if cards.missing:
            raise CannotStart(f"not on this machine: {', '.join(cards.missing)} (nvidia-smi -L)")
        until = time.monotonic() + self.settings.memory.wait_s
        while recipe.min_free_gib:
            seen = memory.look(Path(self.settings.host.proc))
            if seen is None or seen.available_gib >= recipe.min_free_gib:
                return
            if time.monotonic() > until:
                raise CannotStart(
                    f"{seen.available_gib:.1f} GiB are available, and the recipe wants "
                    f"{recipe.min_free_gib:g} GiB: see what else holds memory"
                )
            await asyncio.sleep(_PAUSE_S)  # what was stopped may still be giving it back

    def _check_port(self, port: int) -> None:
        if not proc.listens(port):
            return
        pid = proc.port_holder(port)
        who = "another user's process" if pid is None else f"{proc.title(pid)} (process {pid})"
        raise CannotStart(f"port {port} is held by {who}: stop it, or change the recipe's port")

    def _mark(self, recipe: str, port: int, log: Path, containers: Iterable[str]) -> Mark:
        return Mark(
            id=secrets.token_hex(8),
            recipe=recipe,
            folder=str(self.folder),
            port=port,
            log=str(log),
            boot=proc.boot_id(),
            began=time.time(),
            containers=tuple(containers),
        )

    def _spawn(self, recipe: Recipe, launched: Launch) -> None:
        mark = self._mark(recipe.id, launched.port, self.logs.begin(recipe.id), launched.names)
        # Before it runs: a crash right after the start must not leave what nobody finds.
        self.journal.write(ENGINE, mark.as_data())
        mark, process = family.spawn(mark, launched.argv, self._environ(launched), launched.cwd)
        self.journal.write(ENGINE, mark.as_data())
        self.holder = self.held(mark, launched, process)

    def _environ(self, launched: Launch) -> dict[str, str]:
        own = {k: v for k, v in os.environ.items() if k != self.settings.key_variable}
        return {**gpus.variables(self.settings.gpus), **own, **launched.env}

    def held(
        self, mark: Mark, launched: Launch | None, process: subprocess.Popen[bytes] | None = None
    ) -> Holder:
        """A holder of this start; without a launch its containers are removed by name."""
        removes = [(self.docker.program, "rm", "--force", name) for name in mark.containers]
        return Holder(
            mark,
            self.docker,
            process=process,
            stops=launched.stop if launched else removes,
            logs=launched.logs if launched else None,
        )

    async def until_ready(
        self, recipe: Recipe, said: Callable[[str], None], at_least_s: float = 0.0
    ) -> None:
        """Return once the holder serves the recipe. CannotStart: it ended, is wrong, or too late.

        The time counts from its start, also for one that was adopted while it loaded: that one is
        looked at for `at_least_s`.
        """
        assert self.holder is not None  # noqa: S101 - start and adoption have set it
        holder, limit_s = self.holder, self.start_timeout_s(recipe)
        ended = asyncio.create_task(holder.ended())
        ready = asyncio.create_task(
            probe.until_ready(self.target(recipe), said, lambda: stranger(holder.mark))
        )
        left_s = max(at_least_s, limit_s - (time.time() - holder.mark.began))
        try:
            done, _ = await asyncio.wait(
                {ended, ready}, timeout=left_s, return_when=asyncio.FIRST_COMPLETED
            )
            if ended in done:
                raise CannotStart(f"it ended before it served: {ended.result()}")
            if not done:
                raise CannotStart(f"it was not ready within {limit_s:g} s")
            ready.result()
        except probe.Wrong as error:
            raise CannotStart(str(error)) from error
        finally:
            for task in (ended, ready):
                task.cancel()
            await asyncio.gather(ended, ready, return_exceptions=True)
        holder.mark = replace(holder.mark, ready=True)
        self.journal.write(ENGINE, holder.mark.as_data())

    def start_timeout_s(self, recipe: Recipe) -> float:
        """From start to ready; this machine's file wins over the recipe."""
        return self.settings.rules.start_timeouts_s.get(recipe.id, recipe.start_timeout_s)

    def target(self, recipe: Recipe) -> probe.Target:
        """Where the recipe's engine answers. It listens here, whatever else it listens on."""
        key = host_of(self.settings).env.get("ENGINE_KEY") if recipe.engine == "embedded" else None
        return probe.Target(
            host="127.0.0.1" if recipe.host in ("0.0.0.0", "::") else recipe.host,  # noqa: S104
            port=recipe.port,
            served_name=recipe.served_name,
            probe=ENGINES[recipe.engine].probe,
            key=key,
        )

    async def stop(self, kill: asyncio.Event) -> None:
        """End the engine, if there is one, and forget it once nothing of it is left."""
        if self.holder is not None:
            await self.holder.stop(kill)
        self.holder = None
        self.journal.remove(ENGINE)

    def log(self, recipe: str | None = None) -> Path | None:
        """The log of what holds, or held last; or of the last start of a recipe."""
        mark = self.holder.mark if self.holder else None
        if mark is not None and mark.log and recipe in (None, mark.recipe):
            return Path(mark.log)
        return self.logs.newest(recipe)

    def tail(self, lines: int) -> list[str]:
        """The last lines of what the holder said; secrets hidden."""
        return keep.tail(self.log(), lines)


def stranger(mark: Mark) -> str | None:
    """Who holds the port, where it is surely nobody of this start. Containers cannot be told."""
    if mark.containers:
        return None
    pid = proc.port_holder(mark.port)
    if pid is None or pid in {each.pid for each in family.members(mark)}:
        return None
    return f"{proc.title(pid)} (process {pid})"
