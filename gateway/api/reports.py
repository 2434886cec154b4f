"""GET /metrics and /api/*: what happened, what reaches what, and the file. For admins alone."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from common.problems import as_data, has_errors
from gateway.api.health import problems
from gateway.api.reply import admin_of, json_reply, revision_headers, view_of
from gateway.api.secrets import masked, secrets_of
from gateway.api.view import View
from gateway.config.reach import reaches
from gateway.errors import BadRequest
from gateway.ledger.cost import cost
from gateway.ledger.counted import of_book
from gateway.ledger.files import Kept
from gateway.records.rollups import WINDOWS, Window

# What a Config holds for the bridge alone: a provider's own keys may stand anywhere in it.
_NOT_SHOWN = ("litellm_params",)


async def metrics(request: Request) -> Response:
    """GET /metrics, for Prometheus."""
    admin_of(request)
    view = view_of(request)
    page, content_type = view.metrics.render(request.headers.get("accept", ""))
    return Response(page, headers={"content-type": content_type, **revision_headers(view)})


async def activity(request: Request) -> Response:
    """GET /api/activity?window=1h|24h: sums of the window, and the last records."""
    admin_of(request)
    view = view_of(request)
    window = _window(request.query_params.get("window", "1h"))
    now = view.now()
    data = {
        "revision": str(view.config.revision),
        "window": window,
        **view.usage.window(window),
        "in_flight": sum(d.in_flight for d in now.deployments),
        "waiting": sum(count for _, count in now.waiting),
        "recent": view.usage.recent(),
        "records_lost": view.records_lost,
    }
    return json_reply(data, view)


async def usage(request: Request) -> Response:
    """GET /api/usage: token counters since `since`, of each day, and what the cloud charges."""
    admin_of(request)
    view = view_of(request)
    ledger: Kept = request.app.state.ledger
    # In a thread: files are read, and a year of days is added up.
    data = await asyncio.to_thread(_usage, view, ledger)
    return json_reply({"revision": str(view.config.revision), **data}, view)


def _usage(view: View, ledger: Kept) -> dict[str, Any]:
    book, config = view.usage.book(), view.config
    data = book.as_data()
    if not Path(config.ledger.roi_profiles).exists():
        return data
    known = ledger.read(config)
    told = {"problems": as_data(known.problems)}
    if not has_errors(known.problems):
        told |= cost(of_book(book), known, "recipe").as_data()
    return {**data, "cost": told}


async def routes(request: Request) -> Response:
    """GET /api/routes: every name, what it can reach, and how each deployment is."""
    admin_of(request)
    view = view_of(request)
    data = {
        "revision": str(view.config.revision),
        "routes": [_route(view, name) for name in view.table.routes],
        "reaches": [{k: v for k, v in r.items() if k != "via"} for r in _reaches(view)],
        "deployments": _deployments(view),
    }
    return json_reply(data, view)


async def config(request: Request) -> Response:
    """GET /api/config: the revision in force, with defaults filled in and secrets masked."""
    client = admin_of(request)
    view = view_of(request)
    shown = masked(view.config, secrets_of(view.config))
    for deployment in shown["deployments"]:
        for name in _NOT_SHOWN:
            deployment.pop(name)
    data = {
        "revision": str(view.config.revision),
        "loaded_at": int(view.loaded_at),
        "state": "rejected" if view.rejected else "ok",
        "problems": problems(view, client),
        "config": shown,
    }
    return json_reply(data, view)


def _window(text: str) -> Window:
    for window in WINDOWS:
        if text == window:
            return window
    raise BadRequest("window must be 1h or 24h")


def _route(view: View, name: str) -> dict[str, Any]:
    route = view.table.routes[name]
    return {
        "name": route.name,
        "kind": route.kind,
        "tier": route.tier,
        "group": route.group,
        "fallbacks": route.fallbacks,
        "hidden": route.hidden,
    }


def _reaches(view: View) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = masked(reaches(view.config), secrets_of(view.config))
    return found


def _deployments(view: View) -> list[dict[str, Any]]:
    of_config = {d.id: d for d in view.config.deployments}
    rows = []
    for state in view.now().deployments:
        row: dict[str, Any] = masked(state, ())
        deployment = of_config.get(state.id)
        if deployment is None:
            row["removed"] = True  # from the file; counted until its last request is out
        else:
            row |= {
                "upstream": str(deployment.upstream),
                "served_name": deployment.served_name,
                "slot": deployment.slot,
                "recipe": deployment.recipe,
                "rpm": deployment.rpm,
                "tpm": deployment.tpm,
                "max_parallel_requests": deployment.max_parallel_requests,
            }
        rows.append(row)
    return rows
