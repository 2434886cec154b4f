"""GET /v1/models: the names that a key may send, in OpenAI's or Anthropic's shape."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from difflib import get_close_matches
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from gateway.api.reply import asks_anthropic, client_of, json_reply, view_of
from gateway.config.config import Deployment, Mode, TierName
from gateway.errors import NotFound
from gateway.keys import Client
from gateway.records.record import clean_text
from gateway.routing.table import Route, RouteTable

OWNER = "signalbox"


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """A name that a client may send, and what it may expect there."""

    id: str
    tier: TierName
    mode: Mode
    max_input_tokens: int | None
    max_output_tokens: int | None
    slots: tuple[dict[str, str], ...] = ()  # the slot and recipe of each member on one

    def openai(self, created: float) -> dict[str, Any]:
        """A row as OpenAI's clients read it. `max_model_len` is vLLM's word for the window."""
        row = {
            "id": self.id,
            "object": "model",
            "created": int(created),
            "owned_by": OWNER,
            "tier": self.tier,
            "mode": self.mode,
        }
        if self.max_input_tokens is not None:
            row |= {
                "max_input_tokens": self.max_input_tokens,
                "max_model_len": self.max_input_tokens,
            }
        if self.max_output_tokens is not None:
            row["max_output_tokens"] = self.max_output_tokens
        return row | self._on_slots()

    def _on_slots(self) -> dict[str, Any]:
        """What the file knows; what is loaded now is the control plane's to say."""
        return {"slots": list(self.slots)} if self.slots else {}

    def anthropic(self, created: float) -> dict[str, Any]:
        """A row as Anthropic's clients read it."""
        at = datetime.fromtimestamp(int(created), UTC).isoformat().replace("+00:00", "Z")
        return {
            "type": "model",
            "id": self.id,
            "display_name": self.id,
            "created_at": at,
            "max_input_tokens": self.max_input_tokens,
            "max_tokens": self.max_output_tokens,
            "tier": self.tier,
            "mode": self.mode,
            **self._on_slots(),
        }


def listed(table: RouteTable, client: Client) -> list[Model]:
    """The models a key may use, in the order of the file; hidden aliases are left out."""
    return [
        model_of(table, route)
        for route in table.routes.values()
        if client.may_use(route) and not route.hidden
    ]


def find(table: RouteTable, client: Client, name: str) -> Model:
    """The model of a name that the key may use. Raises NotFound with names near it."""
    route = table.routes.get(name)
    if route is not None and client.may_use(route):
        return model_of(table, route)
    shown = clean_text(name)
    open_names = [r.name for r in table.routes.values() if client.may_use(r) and not r.hidden]
    near = get_close_matches(shown, open_names, n=3)
    hint = f"; near names: {', '.join(near)}" if near else "; GET /v1/models lists the names"
    raise NotFound(f"no model '{shown}' for this key{hint}", code="model_not_found")


def model_of(table: RouteTable, route: Route) -> Model:
    """What a route offers. A group is as wide as its widest member: the router skips the rest."""
    members = table.groups[route.group].members
    windows = [m.max_input_tokens for m in members if m.max_input_tokens is not None]
    outputs = [m.max_output_tokens for m in members if m.max_output_tokens is not None]
    return Model(
        id=route.name,
        tier=table.groups[route.group].tier,
        mode=members[0].mode,
        max_input_tokens=max(windows, default=None),
        max_output_tokens=max(outputs, default=None),
        slots=tuple(_on_slot(member) for member in members if member.slot is not None),
    )


def _on_slot(member: Deployment) -> dict[str, str]:
    found = {"slot": member.slot, "recipe": member.recipe, "variant": member.variant}
    return {name: value for name, value in found.items() if value is not None}


async def list_models(request: Request) -> Response:
    """GET /v1/models."""
    view = view_of(request)
    models = listed(view.table, client_of(request))
    if not asks_anthropic(request.scope["headers"]):
        rows = [model.openai(view.loaded_at) for model in models]
        return json_reply({"object": "list", "data": rows}, view)
    page = {
        "data": [model.anthropic(view.loaded_at) for model in models],
        "has_more": False,
        "first_id": models[0].id if models else None,
        "last_id": models[-1].id if models else None,
    }
    return json_reply(page, view)


async def get_model(request: Request) -> Response:
    """GET /v1/models/NAME; the name may hold slashes."""
    view = view_of(request)
    model = find(view.table, client_of(request), request.path_params["name"])
    if asks_anthropic(request.scope["headers"]):
        return json_reply(model.anthropic(view.loaded_at), view)
    return json_reply(model.openai(view.loaded_at), view)
