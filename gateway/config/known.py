"""What each block of the file may hold: this gateway's fields, and LiteLLM's names as data."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from pathlib import Path as FilePath
from typing import Any, Final

from pydantic import BaseModel

from common.source import Path
from gateway.config import schema

_KEYS_FILE: Final = FilePath(__file__).with_name("litellm_keys.json")

# A block's name is what messages call it, and the block's entry in litellm_keys.json.
FIELDS: Final[Mapping[str, type[BaseModel]]] = {
    "file": schema.File,
    "router_settings": schema.RouterSettings,
    "litellm_settings": schema.LiteLLMSettings,
    "general_settings": schema.GeneralSettings,
    "gateway_settings": schema.GatewaySettings,
    "litellm_params": schema.LiteLLMParams,
    "model_info": schema.ModelInfo,
    "entry": schema.Entry,
}

# Blocks inside blocks, by the keys on the way; "*" is any key or index.
_INNER: Final[tuple[tuple[tuple[str, ...], str, type[BaseModel]], ...]] = (
    (("model_list", "*"), "entry", schema.Entry),
    (("model_list", "*", "litellm_params"), "litellm_params", schema.LiteLLMParams),
    (("model_list", "*", "model_info"), "model_info", schema.ModelInfo),
    (("router_settings", "model_group_alias", "*"), "an alias", schema.AliasItem),
    (("gateway_settings", "tiers", "*"), "a tier", schema.Tier),
    (("gateway_settings", "tiers", "*", "queue"), "queue", schema.Queue),
    (("gateway_settings", "task_pins", "*"), "a pin", schema.PinItem),
    (("gateway_settings", "client_keys", "*"), "a client key", schema.Client),
    (("gateway_settings", "slots", "*"), "a slot", schema.SlotItem),
    (("gateway_settings", "activity"), "activity", schema.ActivityLog),
    (("gateway_settings", "ledger"), "ledger", schema.Ledger),
)


@dataclass(frozen=True, slots=True)
class Names:
    """LiteLLM's names in one block, and what is lost where an unsafe one has no effect."""

    known: frozenset[str]
    unsafe: Mapping[str, str]

    def __contains__(self, name: str) -> bool:
        return name in self.known or name in self.unsafe


@dataclass(frozen=True, slots=True, kw_only=True)
class LiteLLMKeys:
    """litellm_keys.json: made from `release` by tools/litellm_keys.py."""

    release: str
    blocks: Mapping[str, Names]
    providers: frozenset[str]
    callbacks: frozenset[str]
    inner: Mapping[str, frozenset[str]]  # names inside retry_policy and the like

    def block(self, name: str) -> Names:
        return self.blocks.get(name, Names(frozenset(), {}))


@cache
def litellm_keys() -> LiteLLMKeys:
    """The list, read once: it is part of the program."""
    data: dict[str, Any] = json.loads(_KEYS_FILE.read_text("utf-8"))
    blocks = {
        name: Names(frozenset(found["known"]), dict(found["unsafe"]))
        for name, found in data["blocks"].items()
    }
    inner = ("retry_policy", "allowed_fails_policy", "optional_pre_call_checks")
    return LiteLLMKeys(
        release=data["release"],
        blocks=blocks,
        providers=frozenset(data["providers"]),
        callbacks=frozenset(data["callbacks"]),
        inner={name: frozenset(data[name]) for name in inner},
    )


def block_at(path: Path) -> tuple[str, type[BaseModel] | None]:
    """The block whose keys stand at `path`: its name, and its model."""
    if not path:
        return "file", schema.File
    if len(path) == 1 and path[0] in FIELDS:
        return str(path[0]), FIELDS[str(path[0])]
    for form, name, model in _INNER:
        if len(form) == len(path) and all(f in ("*", p) for f, p in zip(form, path, strict=True)):
            return name, model
    return ".".join(str(step) for step in path), None


def fields(model: type[BaseModel] | None) -> frozenset[str]:
    """The keys of a block that have an effect."""
    return frozenset(model.model_fields) if model else frozenset()


def nearest(name: str, known: Iterable[str], cutoff: float = 0.6) -> str | None:
    """The known name that was probably meant, if one is near enough."""
    lowered = {one.lower(): one for one in sorted(known)}
    found = get_close_matches(name.lower(), lowered, n=1, cutoff=cutoff)
    return lowered[found[0]] if found else None


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """` (did you mean 'x'?)`, or what there is if little is there, or nothing."""
    there = sorted(known)
    if (near := nearest(name, there)) is not None:
        return f" (did you mean '{near}'?)"
    if there and len(there) <= 8:
        return f" (there are: {', '.join(there)})"
    return ""
