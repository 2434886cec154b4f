"""The control plane's HTTP face: a Starlette app. docs/slot.md has the table.

Every request reads the recipe files again if they changed. Nothing here starts anything but a lease
that may swap and a switch; `/health` and the GETs only look.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import Awaitable, Callable
from typing import Any, Final

from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from serving.engines.engine import Overrides
from serving.engines.engines import launch
from serving.errors import Unusable
from serving.recipes.recipe import Recipe
from serving.slot import bench, caller, events, keep, status
from serving.slot.actor import Actor, Refused
from serving.slot.given import Given
from serving.slot.guard import Guard
from serving.slot.host import host_of
from serving.slot.job import Job
from serving.slot.refusals import (
    BadRequest,
    Busy,
    Refusal,
    Unavailable,
    UnknownRecipe,
)
from serving.slot.state import ACTIVE, Lease

_GONE: Final = 499  # nobody reads it: the caller has left

Answer = Callable[[Request], Awaitable[Response]]


class Api:
    """The app, on an actor and a guard."""

    def __init__(self, actor: Actor, guard: Guard) -> None:
        self._actor = actor
        self._guard = guard
        self._job: Job | None = None
        self._bench: bench.Result | None = None
        self._benching: asyncio.Task[None] | None = None
        self.app = Starlette(
            routes=[
                Route("/health", self._health),
                self._route("/api/slot/lease", "POST", self._lease),
                self._route("/api/slot/lease/renew", "POST", self._renew),
                self._route("/api/slot/lease/{id}", "DELETE", self._give_back),
                self._route("/api/slot/status", "GET", self._status),
                self._route("/api/slot/recipes", "GET", self._recipes),
                self._route("/api/slot/context", "GET", self._context),
                self._route("/api/slot/logs", "GET", self._logs),
                self._route("/api/slot/switch", "POST", self._switch),
                self._route("/api/slot/down", "POST", self._down),
                self._route("/api/slot/bench", "POST", self._start_bench),
            ]
        )

    async def close(self) -> None:
        """End what runs for nobody."""
        if self._benching is not None:
            self._benching.cancel()
            await asyncio.gather(self._benching, return_exceptions=True)

    def _route(self, path: str, method: str, answer: Answer) -> Route:
        async def answered(http: Request) -> Response:
            try:
                caller.admit(http, self._actor.settings.key)
                if self._actor.shelf.refresh():
                    self._actor.read_rules()
                return await answer(http)
            except Refusal as refusal:
                return JSONResponse(refusal.body(), refusal.status, refusal.headers)
            except ClientDisconnect:
                return Response(status_code=_GONE)

        return Route(path, answered, methods=[method])

    async def _health(self, _: Request) -> Response:
        """The process lives: that says nothing about an engine, and starts none."""
        return JSONResponse({"status": "ok", "phase": self._actor.slot.phase})

    # -- leases ------------------------------------------------------------------------------------

    async def _lease(self, http: Request) -> Response:
        given = await caller.given(http, "recipe", "swap", "wait_s", "holder")
        name = given.text("recipe")
        recipe = ACTIVE if name == ACTIVE else self._known(name).id
        ask = events.Ask(
            id=secrets.token_hex(16),
            recipe=recipe,
            may_swap=given.flag("swap"),
            wait_s=given.seconds("wait_s"),
            holder=given.text("holder", "")[:200],
        )
        try:
            answer = await caller.unless_gone(http, self._actor.lease(ask))
        except ClientDisconnect:
            self._actor.left(ask.id)  # it may have been granted in the same moment
            raise
        if isinstance(answer, Refused):
            raise self._unavailable(recipe, answer)
        return JSONResponse(self._granted(answer))

    def _granted(self, lease: Lease) -> dict[str, Any]:
        recipe = self._actor.shelf.last(lease.recipe)
        assert recipe is not None  # noqa: S101 - its engine was started, or found, by this file
        target = self._actor.room.target(recipe)
        return {
            "lease": lease.id,
            "recipe": lease.recipe,
            "served_name": recipe.served_name,
            "url": f"{target.url}/v1",
            "port": recipe.port,
            "waited_s": round(lease.waited_s, 3),
            "variants": {name: dict(fields) for name, fields in recipe.variants.items()},
        }

    def _unavailable(self, recipe: str, refused: Refused) -> Unavailable:
        slot = self._actor.slot
        serves = slot.phase in ("ready", "draining")
        return Unavailable(
            refused.reason,
            refused.code,
            retry_after_s=refused.retry_after_s,
            recipe=slot.target or slot.holder if recipe == ACTIVE else recipe,
            active=slot.holder if serves else None,
        )

    async def _renew(self, http: Request) -> Response:
        rows = (await caller.given(http, "leases")).rows("leases")
        lost = [
            row.text("lease")
            for row in rows
            if not self._actor.renew(row.text("lease"), row.text("recipe"), row.text("holder", ""))
        ]
        return JSONResponse({"lost": lost})

    async def _give_back(self, http: Request) -> Response:
        ended = self._actor.give_back(http.path_params["id"])
        return JSONResponse({"ended": ended.how, "reason": ended.reason})

    # -- looks -------------------------------------------------------------------------------------

    async def _status(self, http: Request) -> Response:
        lite = http.query_params.get("lite") == "1"
        found = status.status(self._actor, lite=lite)
        if not lite:
            job = self._job.as_data(self._actor.slot) if self._job else None
            measured = self._bench.as_data() if self._bench else None
            found |= {"job": job, "bench": measured, "memory": self._guard.status()}
        return JSONResponse(found)

    async def _recipes(self, _: Request) -> Response:
        return JSONResponse(status.recipes(self._actor))

    async def _context(self, http: Request) -> Response:
        recipe = self._known(http.query_params.get("recipe") or self._actor.slot.holder or "")
        return JSONResponse(status.context(self._actor, recipe))

    async def _logs(self, http: Request) -> Response:
        """The newest log's tail; with `at` what came after it in the same `file`."""
        asked = http.query_params
        lines = min(200, max(5, _number(asked.get("lines"), 50)))
        recipe = self._known(asked["recipe"]).id if "recipe" in asked else None
        log = self._actor.room.log(recipe)
        if log is None:
            return JSONResponse({"file": None, "at": 0, "lines": []})
        if asked.get("file") == log.name:
            found, at = keep.since(log, _number(asked.get("at"), 0))
        else:
            found, at = keep.tail(log, lines), keep.size(log)
        return JSONResponse({"file": log.name, "at": at, "lines": found})

    # -- what the operator does --------------------------------------------------------------------

    async def _switch(self, http: Request) -> Response:
        given = await caller.given(http, "recipe", "confirm", "force", "ctx", "kv", "preset")
        try:
            recipe = self._known(given.text("recipe"))
        except UnknownRecipe as error:
            raise BadRequest(str(error), "unknown_recipe") from error
        overrides = _overrides(recipe, given, self._actor)
        if not (given.flag("confirm") or given.flag("force")):
            self._check_busy(recipe, overrides)
        slot = self._actor.now()
        self._job = Job(id=secrets.token_hex(4), recipe=recipe.id, at=slot.at)
        self._actor.send(
            events.Up(recipe=recipe.id, force=given.flag("force"), overrides=overrides)
        )
        return self._accepted()

    def _check_busy(self, recipe: Recipe, overrides: dict[str, int | str]) -> None:
        slot = self._actor.now()
        if slot.holder == recipe.id and overrides in ({}, dict(slot.overrides)):
            return
        if slot.leases:
            raise Busy(f"{len(slot.leases)} requests run on {slot.holder}: confirm to swap it out")
        if slot.phase == "starting":
            raise Busy(f"{slot.holder} is loading: confirm to have {recipe.id} after it")

    async def _down(self, http: Request) -> Response:
        given = await caller.given(http, "force", "confirm")
        self._job = Job(id=secrets.token_hex(4), recipe=None, at=self._actor.now().at)
        self._actor.send(events.Down(force=given.flag("force")))
        return self._accepted()

    def _accepted(self) -> Response:
        job = self._job.as_data(self._actor.slot) if self._job else None
        return JSONResponse({"job": job}, 202)

    async def _start_bench(self, http: Request) -> Response:
        given = await caller.given(http, "recipe")
        name = given.text("recipe", ACTIVE)
        recipe = ACTIVE if name == ACTIVE else self._known(name).id
        if self._benching is not None and not self._benching.done():
            raise Busy("a bench runs: its result will be in status")
        if self._actor.slot.phase != "ready" or recipe not in (ACTIVE, self._actor.slot.holder):
            raise Busy(f"{recipe} is not loaded: `up` first")
        self._benching = asyncio.create_task(self._measure(recipe))
        return JSONResponse({"bench": "runs"}, 202)

    async def _measure(self, recipe: str) -> None:
        self._bench = None
        self._bench = await bench.measure(self._actor, recipe)

    def _known(self, name: str) -> Recipe:
        recipe = self._actor.shelf.find(name)
        if recipe is None:
            known = ", ".join(sorted(self._actor.shelf.enabled)) or "none"
            raise UnknownRecipe(name, known)
        return recipe


def _overrides(recipe: Recipe, given: Given, actor: Actor) -> dict[str, int | str]:
    """What the operator wants other than the recipe says; refused where the engine cannot."""
    found: dict[str, int | str | None] = {
        "ctx": given.count("ctx"),
        "kv": given.text("kv", "") or None,
        "preset": given.text("preset", "") or None,
    }
    overrides = {name: value for name, value in found.items() if value is not None}
    try:
        launch(recipe, host_of(actor.settings), Overrides(**overrides))  # type: ignore[arg-type]
    except Unusable as error:
        raise BadRequest(str(error), "bad_overrides") from error
    return overrides


def _number(text: str | None, otherwise: int) -> int:
    with contextlib.suppress(ValueError):
        return otherwise if text is None else int(text)
    raise BadRequest(f"{text!r:.40} is no whole number")
