"""GET /health, /health/live, /health/ready. None of them calls an engine."""

from __future__ import annotations

from collections import Counter
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from gateway.api.reply import client_of, json_reply, view_of
from gateway.api.secrets import masked, secrets_of
from gateway.api.view import View
from gateway.keys import Client


async def live(_: Request) -> Response:
    """GET /health/live, open to all: the process answers. It says nothing else."""
    return Response(b'{"status":"live"}', media_type="application/json")


async def ready(request: Request) -> Response:
    """GET /health/ready: 200 while new requests are taken, else 503.

    A rejected file changes nothing that is served, so it is still 200, and says so.
    """
    view = view_of(request)
    status = 200 if view.phase == "ready" else 503
    return json_reply(_readiness(view, client_of(request)), view, status=status)


async def health(request: Request) -> Response:
    """GET /health: the same with the groups that the key may use, and how they are."""
    view = view_of(request)
    client = client_of(request)
    data = {
        **_readiness(view, client),
        "loaded_at": int(view.loaded_at),
        "groups": _groups(view, client),
    }
    return json_reply(data, view)


def _readiness(view: View, client: Client) -> dict[str, Any]:
    data: dict[str, Any] = {
        "status": view.phase,
        "config": "rejected" if view.rejected else "ok",
        "revision": str(view.config.revision),
    }
    if view.rejected:
        data["problems"] = problems(view, client)
    return data


def problems(view: View, client: Client) -> list[dict[str, Any]]:
    """What is wrong with the file on disk. Messages may name hosts: they are for admins."""
    rows: list[dict[str, Any]] = []
    for problem in view.rejected:
        row: dict[str, Any] = {
            "severity": problem.severity,
            "code": problem.code,
            "line": problem.place.line,
            "column": problem.place.column,
        }
        if client.admin:
            row["file"] = problem.place.file
            row["message"] = masked(problem.message, secrets_of(view.config))
        rows.append(row)
    return rows


def _groups(view: View, client: Client) -> dict[str, dict[str, Any]]:
    """Counts by group. No deployment's id here: it holds an address."""
    now = view.now()
    members = Counter(d.group for d in now.deployments)
    resting = Counter(d.group for d in now.deployments if d.rests_s is not None)
    in_flight: Counter[str] = Counter()
    for deployment in now.deployments:
        in_flight[deployment.group] += deployment.in_flight
    waiting = dict(now.waiting)
    shown = {
        route.group for route in view.table.routes.values() if client.admin or client.may_use(route)
    }
    return {
        group.name: {
            "tier": group.tier,
            "deployments": members[group.name],
            "resting": resting[group.name],
            "in_flight": in_flight[group.name],
            "waiting": waiting.get(group.name, 0),
        }
        for group in view.table.groups.values()
        if group.name in shown
    }
