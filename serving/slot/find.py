"""What runs already when the control plane starts, and whose it is.

1  the noted start, or one that carries this slot's variable     its recipe; others are ended
2  a running container that a recipe names                       the recipe that it serves
3  nothing
"""

from __future__ import annotations

import time
from dataclasses import replace

import structlog

from serving.engines.engines import launch
from serving.errors import Unusable
from serving.recipes.recipe import Recipe
from serving.slot import family, probe, proc
from serving.slot.events import FoundNothing, FoundRecipe, FoundStranger
from serving.slot.family import Mark
from serving.slot.holder import Holder
from serving.slot.host import host_of
from serving.slot.journal import ENGINE
from serving.slot.room import Room

_log = structlog.get_logger("slot")
Found = FoundNothing | FoundRecipe | FoundStranger


async def find(room: Room) -> Found:
    """What runs; it is `room.holder` from now on. Raises CannotStart where a second one stays."""
    mark = await _noted(room) or _marked(room) or await _contained(room)
    if mark is None:
        room.journal.remove(ENGINE)
        await room.clear()
        return FoundNothing()
    recipe = room.shelf.every.get(mark.recipe)
    room.holder = _held(room, mark, recipe)
    room.journal.write(ENGINE, mark.as_data())
    await _end_others(room, mark)
    if recipe is None:
        return FoundStranger(what=mark.recipe)
    ready = await _serves(room, recipe, mark)
    _log.info("found", recipe=recipe.id, pid=mark.pid, ready=ready)
    return FoundRecipe(recipe=recipe.id, ready=ready)


async def _noted(room: Room) -> Mark | None:
    """The start that the last process noted, if anything of it runs."""
    mark = Mark.of_data(room.journal.read(ENGINE))
    if mark is None:
        return None
    left = family.members(mark)
    if not left and not await room.docker.running(mark.containers):
        return None
    if mark.pid is None and left:  # the process was killed between the start and its note
        leader = next((p for p in left if p.session == p.pid), left[0])
        return replace(mark, pid=leader.pid, started=leader.started)
    return mark


def _marked(room: Room) -> Mark | None:
    """A start that only its processes tell of: the note is lost."""
    found = family.strays(room.folder, None)
    alone = next((mark for mark in found if mark.pid is not None), None)
    recipe = room.shelf.every.get(alone.recipe) if alone else None
    if alone is None or recipe is None:
        return None  # `clear` ends them
    log = room.logs.newest(recipe.id)
    return replace(alone, port=recipe.port, log=str(log or ""), began=time.time())


async def _contained(room: Room) -> Mark | None:
    """A container that somebody else started, or whose note is lost."""
    owners: dict[str, list[Recipe]] = {}
    for recipe in room.shelf.every.values():
        for name in _names(room, recipe):
            owners.setdefault(name, []).append(recipe)
    running = await room.docker.running(owners)
    if not running:
        return None
    for recipe in owners[running[0]]:  # several recipes may share one container
        if await _looks_ready(room, recipe):
            return _container_mark(room, recipe, _names(room, recipe))
    if len(owners[running[0]]) == 1:
        [recipe] = owners[running[0]]
        return _container_mark(room, recipe, _names(room, recipe))
    return _container_mark(room, None, (running[0],))


def _names(room: Room, recipe: Recipe) -> tuple[str, ...]:
    try:
        return launch(recipe, host_of(room.settings)).names
    except Unusable:
        return ()


def _container_mark(room: Room, recipe: Recipe | None, names: tuple[str, ...]) -> Mark:
    title = recipe.id if recipe else names[0]
    return Mark(
        id="found",
        recipe=title,
        folder=str(room.folder),
        port=recipe.port if recipe else 0,
        log=str(room.logs.begin(title)),
        boot=proc.boot_id(),
        began=time.time(),
        containers=names,
    )


def _held(room: Room, mark: Mark, recipe: Recipe | None) -> Holder:
    try:
        launched = launch(recipe, host_of(room.settings)) if recipe else None
    except Unusable:
        launched = None
    return room.held(mark, launched)


async def _end_others(room: Room, mark: Mark) -> None:
    """One engine is adopted; every other start of this slot is ended now, not at the next swap."""
    for other in family.strays(room.folder, mark):
        await room.end(Holder(other, room.docker))
    owners = room.containers()
    for name in await room.docker.running(set(owners) - set(mark.containers)):
        await room.end(room.foreign(name, owners[name]))


async def _serves(room: Room, recipe: Recipe, mark: Mark) -> bool:
    """Whether it has served and does: it may be busy, so that no completion is asked of it."""
    known = mark.ready or mark.id == "found"
    return known and await _looks_ready(room, recipe)


async def _looks_ready(room: Room, recipe: Recipe) -> bool:
    target = room.target(recipe)
    async with probe.client(target) as asks:
        try:
            await probe.look(asks, target)
        except probe.NotReady:
            return False
    return True
