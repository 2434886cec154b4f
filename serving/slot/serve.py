"""The control plane as a process: START READING HERE.

begin              lock the run folder, adopt what runs, serve the API, watch memory
SIGTERM, SIGINT    the API closes, callers that wait are refused; the engine runs on
SIGHUP             nothing
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
from collections.abc import Callable, Iterable, Iterator

import structlog
import uvicorn

from serving.engines.tensorfold import LAUNCHER
from serving.errors import Unusable
from serving.recipes.recipe import Recipe
from serving.slot import proc
from serving.slot.actor import Actor
from serving.slot.api import Api
from serving.slot.containers import Docker
from serving.slot.guard import Guard
from serving.slot.journal import Journal
from serving.slot.keep import Logs
from serving.slot.room import Room
from serving.slot.settings import Settings
from serving.slot.shelf import Shelf

_log = structlog.get_logger("slot")
_CLOSE_S = 2
FOR_ENGINES = ("ENGINE_KEY", *LAUNCHER)  # which an engine takes by itself


class _Front(uvicorn.Server):
    """Uvicorn, whose own way would send itself the signal again after the end: no exit 0.

    Callers that wait for a model would hold up the end: they are answered first.
    """

    def __init__(self, config: uvicorn.Config, closes: Callable[[], None]) -> None:
        super().__init__(config)
        self._closes = closes

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._closes()
        await super().shutdown(sockets)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.handle_exit, number, None)
        loop.add_signal_handler(signal.SIGHUP, _hung_up)
        yield


def _hung_up() -> None:
    _log.info("SIGHUP changes nothing: recipes are read by themselves, the slot file at start")


def actor_of(settings: Settings, journal: Journal) -> Actor:
    """The slot with its recipes, its place for an engine, and what the last process left."""
    shelf = Shelf(settings)
    shelf.refresh()
    room = Room(
        settings=settings,
        shelf=shelf,
        journal=journal,
        logs=Logs(folder=settings.run.absolute() / "logs", kept=settings.logs_kept),
        docker=Docker(program=settings.host.docker),
        folder=settings.run.absolute() / "slot",
    )
    return Actor(settings, shelf, room)


def unnamed(variables: Iterable[str], recipes: Iterable[Recipe]) -> list[str]:
    """Variables of the slot file that reach no engine, because nobody asks for them."""
    known = {name for recipe in recipes for name in recipe.env_from_host}
    return sorted(set(variables) - known - set(FOR_ENGINES))


async def serve(settings: Settings) -> int:
    """Serve until told to stop; the exit code. 1: the port is taken. Raises Unusable."""
    if proc.listens(settings.port):
        raise Unusable(f"port {settings.port} is in use: another control plane, or `listen` anew")
    journal = Journal(settings.run.absolute() / "slot")
    journal.own()
    actor = actor_of(settings, journal)
    for problem in actor.shelf.problems:
        _log.warning("recipe", problem=str(problem))
    for id_ in actor.shelf.missing:
        _log.warning("recipe", problem=f"enabled, but no recipe has the id {id_}")
    for name in unnamed(settings.host.env, actor.shelf.every.values()):
        _log.warning(
            "host.env", problem=f"no recipe names {name} in env_from_host: no engine has it"
        )
    guard = Guard(actor)
    api = Api(actor, guard)
    front = _Front(
        uvicorn.Config(
            api.app,
            host=settings.address,
            port=settings.port,
            log_config=None,
            access_log=False,
            lifespan="off",
            timeout_graceful_shutdown=_CLOSE_S,
        ),
        actor.close,
    )
    try:
        await actor.begin()
        watching = asyncio.create_task(guard.run())
        _log.info("serving", slot=settings.slot, url=settings.url, recipes=len(actor.shelf.enabled))
        try:
            await front.serve()
        except SystemExit:  # uvicorn's way to say that the port is taken; it has logged why
            return 1
        finally:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)
    finally:
        await api.close()
        await actor.end()
        journal.release()
    return 0
