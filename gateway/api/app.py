"""Everything that is not inference: models, health, metrics, reports.

The gate stands before the routes. Whatever the path, its spelling or the method, a request
without a known key gets 401, except GET (and HEAD) of the routes in OPEN_ROUTES, spelled exactly
so. Behind it an unknown path is a quick 404, a wrong method a 405, both as JSON in the dialect of
the path.
"""

from __future__ import annotations

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from gateway.api import health, models, reports
from gateway.api.reply import CALLER, dialect_of, error_reply, route_of, view_of
from gateway.api.view import View
from gateway.errors import GatewayError, NotFound, Unauthorized, WrongMethod
from gateway.ledger.files import Kept

# Printed at start. Adding one means that anybody may read it.
OPEN_ROUTES = ("/health/live",)

_MODELS = {"/models": models.list_models, "/models/{name:path}": models.get_model}
_PAGES = {
    "/health": health.health,
    "/health/live": health.live,
    "/health/ready": health.ready,
    "/metrics": reports.metrics,
    "/api/activity": reports.activity,
    "/api/usage": reports.usage,
    "/api/routes": reports.routes,
    "/api/config": reports.config,
}
PAGES = {prefix + path: page for prefix in ("/v1", "") for path, page in _MODELS.items()} | _PAGES


def build(view: View) -> ASGIApp:
    """The ASGI app for every path that the relay does not take."""
    pages = Starlette(
        routes=[Route(path, page, methods=["GET"]) for path, page in PAGES.items()],
        exception_handlers={
            GatewayError: _gateway_error,
            HTTPException: _http_error,
            Exception: _bug,
        },
    )
    pages.router.redirect_slashes = False  # a redirect would tell which paths there are
    pages.state.view = view
    pages.state.ledger = Kept()
    return Gate(view, pages)


class Gate:
    """Lets through who has a key. Raises nothing: a refusal is answered here."""

    def __init__(self, view: View, pages: ASGIApp) -> None:
        self._view = view
        self._pages = pages

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
            return
        if scope["type"] == "http" and not _is_open(scope):
            try:
                scope[CALLER] = self._view.identify(scope["headers"])
            except GatewayError as error:
                if isinstance(error, Unauthorized):
                    self._view.metrics.key_refused()
                dialect = dialect_of(scope["path"], scope["headers"])
                await error_reply(error, self._view, dialect)(scope, receive, send)
                return
        await self._pages(scope, receive, send)


def _is_open(scope: Scope) -> bool:
    return scope["path"] in OPEN_ROUTES and scope["method"] in ("GET", "HEAD")


async def _gateway_error(request: Request, error: Exception) -> Response:
    if not isinstance(error, GatewayError):
        raise error
    dialect = dialect_of(request.scope["path"], request.scope["headers"])
    return error_reply(error, view_of(request), dialect)


async def _http_error(request: Request, error: Exception) -> Response:
    """Starlette's own 404 and 405, as ours."""
    path = request.scope["path"]
    headers = getattr(error, "headers", None) or {}
    allowed = "POST" if route_of(path) is not None else headers.get("Allow")
    if allowed is None:
        return await _gateway_error(request, NotFound("there is no such path here"))
    reply = await _gateway_error(
        request, WrongMethod(f"{request.method} is not served here; allowed: {allowed}")
    )
    reply.headers["allow"] = allowed
    return reply


async def _bug(request: Request, _: Exception) -> Response:
    """A fault of ours: Starlette raises it again, for the log; the client learns no more."""
    return await _gateway_error(request, GatewayError("the gateway failed; its log says why"))
