"""Answers as JSON, each with the revision of the file it was made under."""

from __future__ import annotations

from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from gateway import errors
from gateway.api.view import View
from gateway.config.config import Dialect
from gateway.dialects import PATHS
from gateway.errors import Forbidden, GatewayError
from gateway.keys import Client

# Where the gate leaves who is calling; ASGI's own "client" is the socket's peer.
CALLER = "gateway.caller"


def view_of(request: Request) -> View:
    """The gateway that serves this request."""
    view: View = request.app.state.view
    return view


def client_of(request: Request) -> Client:
    """Who sent this request: the gate has seen to it that there is one."""
    client: Client = request.scope[CALLER]
    return client


def admin_of(request: Request) -> Client:
    """The same, where only an admin may look. Raises Forbidden."""
    client = client_of(request)
    if not client.admin:
        raise Forbidden(
            "this page needs the master key or a client key with 'admin: true'", code="admin_only"
        )
    return client


def json_reply(data: Any, view: View, *, status: int = 200) -> Response:
    """`data` as JSON."""
    return Response(
        msgspec.json.encode(data),
        status_code=status,
        media_type="application/json",
        headers=revision_headers(view),
    )


def error_reply(error: GatewayError, view: View, dialect: Dialect | None) -> Response:
    """An error in the dialect of the path."""
    reply = Response(errors.body(error, dialect), status_code=error.shown_status)
    for name, value in errors.headers(error):
        reply.headers[name.decode()] = value.decode()
    reply.headers.update(revision_headers(view))
    return reply


def revision_headers(view: View) -> dict[str, str]:
    """The header that names the revision of the file."""
    return {"x-gateway-config": str(view.config.revision), "cache-control": "no-store"}


def route_of(path: str) -> Dialect | None:
    """The dialect that an inference path speaks, with or without /v1."""
    return PATHS.get(path.removeprefix("/v1"))


def dialect_of(path: str, headers: list[tuple[bytes, bytes]]) -> Dialect | None:
    """The dialect for an error: by path, and by Anthropic's header where the path says nothing."""
    plain = path.removeprefix("/v1")
    if plain == "/messages" or plain.startswith("/messages/"):
        return "messages"
    if plain == "/models" or plain.startswith("/models/"):
        return "messages" if asks_anthropic(headers) else None
    return route_of(path)


def asks_anthropic(headers: list[tuple[bytes, bytes]]) -> bool:
    """True for Anthropic's clients, which send their version with every request."""
    return any(name == b"anthropic-version" for name, _ in headers)
