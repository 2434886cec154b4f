"""What the control plane says about itself and its recipes, as plain data. No I/O."""

from __future__ import annotations

import time
from collections.abc import Mapping
from math import ceil
from statistics import median
from typing import Any

from common.problems import as_data
from serving.recipes.recipe import Recipe
from serving.slot.actor import Actor
from serving.slot.estimate import load_s
from serving.slot.line import pause_s
from serving.slot.state import Slot


def status(actor: Actor, *, lite: bool = False) -> dict[str, Any]:
    """The slot now: phase, what is loaded, who uses it and who waits; not lite: what was."""
    slot = actor.now()
    found = {
        "slot": actor.settings.slot,
        **actor.active(),
        "since": round(time.time() - (slot.at - slot.since), 3),
        "reason": slot.reason,
        "target": slot.target,
        "progress": progress(actor, slot),
        "leases": len(slot.leases),
        "waiting": waiting(slot),
    }
    if lite:
        return found
    return found | {
        "overrides": dict(slot.overrides),
        "holders": [each.holder for each in slot.leases.values()],
        "failures": {id_: _failure(slot, id_) for id_ in slot.failures},
        "loads": {id_: _loads(past) for id_, past in slot.loads.items() if past},
        "gpus": actor.room.gpus_said,
    }


def progress(actor: Actor, slot: Slot) -> dict[str, Any] | None:
    """How far a start is; None where none goes on."""
    if slot.phase != "starting" or slot.holder is None:
        return None
    return {
        "elapsed_s": round(slot.at - slot.since, 1),
        "expected_s": round(load_s(slot, slot.holder, actor.rules), 1),
        "seen": actor.seen,
    }


def waiting(slot: Slot) -> list[dict[str, Any]]:
    """Who waits, by what they wait for."""
    found: dict[str, list[float]] = {}
    for each in slot.waiters:
        found.setdefault(each.recipe, []).append(slot.at - each.since)
    return [
        {"recipe": recipe, "count": len(ages), "longest_s": round(max(ages), 1)}
        for recipe, ages in found.items()
    ]


def _failure(slot: Slot, id_: str) -> dict[str, Any]:
    failure = slot.failures[id_]
    return {
        "count": failure.count,
        "reason": failure.reason,
        "retry_in_s": ceil(pause_s(slot, id_) * 10) / 10,  # 0 only once it may be
        "log_tail": failure.log_tail,
    }


def _loads(past: tuple[float, ...]) -> dict[str, Any]:
    return {
        "last_s": round(past[-1], 2),
        "median_s": round(median(past), 2),
        "count": len(past),
    }


def recipes(actor: Actor) -> dict[str, Any]:
    """Every recipe of the folder, and what is wrong with its files."""
    slot, shelf = actor.now(), actor.shelf
    enabled = shelf.enabled
    return {
        "recipes": [
            row(each) | {"enabled": id_ in enabled, "loaded": _loaded(slot, id_)}
            for id_, each in sorted(shelf.every.items())
        ],
        "missing": list(shelf.missing),
        "problems": as_data(shelf.problems),
    }


def row(recipe: Recipe) -> dict[str, Any]:
    """One recipe in a line."""
    return {
        "id": recipe.id,
        "name": recipe.name,
        "engine": recipe.engine,
        "tier": recipe.tier,
        "lifecycle": recipe.lifecycle,
        "served_name": recipe.served_name,
        "port": recipe.port,
        "ctx": recipe.context.default,
        "aliases": list(recipe.aliases),
    }


def context(actor: Actor, recipe: Recipe) -> dict[str, Any]:
    """How much this recipe can read: its default, its presets, and what is in force now."""
    given, slot = recipe.context, actor.now()
    presets = {
        name: {"ctx": each.ctx, "kv": each.kv, "max_num_seqs": each.max_num_seqs}
        for name, each in given.presets.items()
    }
    loaded: Mapping[str, Any] | None = None
    if _loaded(slot, recipe.id):
        loaded = dict(slot.overrides)
    return {
        "recipe": recipe.id,
        "default": given.default,
        "native": given.native,
        "kv_default": given.kv_default,
        "presets": presets,
        "overrides": loaded,
    }


def _loaded(slot: Slot, id_: str) -> bool:
    return slot.holder == id_ and slot.phase in ("ready", "draining")
