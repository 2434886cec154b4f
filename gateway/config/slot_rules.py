"""Slots: what a deployment on one may say, what its settings say, and who may swap.

    unknown-slot    a deployment's slot has no settings in gateway_settings.slots
    slot-recipe     a slot without a recipe, or one of a slot's keys without a slot
    slot-variant    a variant of a recipe that is not `active`: its own file says how it thinks
    active-swaps    `swap: true` with `recipe: active`, which is whatever is loaded
    slot-provider   a provider that is not called at an address: a slot's engine is
    slot-name       a slot or a recipe whose name does not fit ids and headers
    slot-url        the address of a control plane that is none
    unused-slot     (warning) a slot that no deployment names

What swaps mean for isolation is in `isolation.py`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Final
from urllib.parse import urlsplit

from common.problems import Problem
from common.source import Path
from gateway.config import access, addresses, known, schema
from gateway.config.config import ACTIVE, Deployment, Slot, TierName
from gateway.config.entry import Entry, Provider
from gateway.config.env import Resolved
from gateway.config.names import Names

_SLOTS: Final[Path] = ("gateway_settings", "slots")
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")
_SWAPPING_TIERS: Final[tuple[TierName, ...]] = ("interactive", "auxiliary")


def may_swap(member: Deployment, *, group: TierName, name: TierName, task: bool) -> bool:
    """True if a request may have the member's recipe loaded; tiers of its group and of its name.

    1. Nothing to load: no slot, or the recipe is whatever is loaded.
    2. The file's word, where it has one.
    3. Else where both tiers are interactive or auxiliary, and the name is no task.
    """
    if member.slot is None or member.recipe == ACTIVE:
        return False
    if member.swap is not None:
        return member.swap
    return not task and group in _SWAPPING_TIERS and name in _SWAPPING_TIERS


def faults(entry: Entry, block: schema.Entry, provider: Provider) -> Iterator[Problem]:
    """What is wrong with the slot of one deployment."""
    info, name = block.model_info, entry.name
    if info.slot is None:
        for key in ("recipe", "variant", "swap"):
            if getattr(info, key) is not None:
                said = f"{key} of {name} is of no slot: name the slot beside it, in model_info.slot"
                yield entry.error(entry.info(key), "slot-recipe", said)
        return
    yield from _slot_there(entry, info.slot)
    if info.recipe is None:
        said = f"{name} is on slot '{info.slot}' and names no recipe: write its id, or `{ACTIVE}`"
        yield entry.error(entry.info("slot"), "slot-recipe", said)
    elif not _NAME.fullmatch(info.recipe) and entry.info("recipe") not in entry.resolved.unset:
        yield entry.error(entry.info("recipe"), "slot-name", _name_told("a recipe", info.recipe))
    if info.variant is not None and info.recipe not in (None, ACTIVE):
        said = (
            f"variant is for `recipe: {ACTIVE}`; for '{info.recipe}' set its own field in"
            " litellm_params.extra_body, or take variant out"
        )
        yield entry.error(entry.info("variant"), "slot-variant", said)
    if info.swap and info.recipe == ACTIVE:
        said = f"`recipe: {ACTIVE}` is whatever is loaded and never swaps: take swap out"
        yield entry.error(entry.info("swap"), "active-swaps", said)
    yield from _address_faults(entry, block, provider)


def _name_told(what: str, name: str) -> str:
    return f"`{name}` is no name of {what}: letters and digits, and between them `.`, `_` and `-`"


def _slot_there(entry: Entry, slot: str) -> Iterator[Problem]:
    settings = entry.resolved.data.get("gateway_settings")
    given = settings.get("slots") if isinstance(settings, dict) else None
    there = [str(name) for name in given] if isinstance(given, dict) else []
    if slot not in there:
        near = known.did_you_mean(slot, there)
        said = (
            f"slot '{slot}' of {entry.name} has no settings{near}: write gateway_settings.slots:"
            f" {{{slot}: {{url: http://127.0.0.1:8767}}}}"
        )
        yield entry.error(entry.info("slot"), "unknown-slot", said)


def _address_faults(entry: Entry, block: schema.Entry, provider: Provider) -> Iterator[Problem]:
    if not provider.relayed:
        said = (
            f"{entry.name} is on a slot, and {provider.prefix}/ is not called at an address: write"
            f" hosted_vllm/{provider.served_name}"
        )
        yield entry.error(entry.param("model"), "slot-provider", said)
    if block.litellm_params.api_base is not None:
        said = f"api_base of {entry.name} has no effect: its slot says where the recipe is"
        yield entry.warning(entry.param("api_base"), "no-effect", said)


def settings(
    pointing: Names,
    given: Mapping[str, schema.SlotItem],
    resolved: Resolved,
    members: Iterable[Deployment],
) -> dict[str, Slot]:
    """Every slot of the file; `pointing` takes the problems."""
    used = {member.slot for member in members}
    found: dict[str, Slot] = {}
    for name, item in given.items():
        at = (*_SLOTS, name)
        _url_fault(pointing, (*at, "url"), item.url, resolved)
        if item.key is not None:
            who = f"the key of slot '{name}'"
            pointing.problems += access.weak(pointing.source, resolved, (*at, "key"), item.key, who)
        if not _NAME.fullmatch(name):
            pointing.error(at, "slot-name", _name_told("a slot", name), key=True)
        if name not in used:
            said = f"no deployment is on slot '{name}': take it out, or name it in model_info.slot"
            pointing.problems.append(
                Problem(pointing.source.place(at), "warning", "unused-slot", said)
            )
        found[name] = Slot(
            name=name,
            url=addresses.clean(item.url),
            key=item.key,
            on_swap=item.on_swap,
            max_hold_s=item.max_hold_s,
            burst_bridges_swap=item.burst_bridges_swap,
        )
    return found


def _url_fault(pointing: Names, at: Path, url: str, resolved: Resolved) -> None:
    if at in resolved.unset:
        return
    wrong = next(addresses.faults(url, relayed=False), None) is not None
    if wrong or urlsplit(url).path.strip("/"):  # it may hold a password: it is not shown
        said = "the url of a slot is its control plane's: write http://127.0.0.1:8767, and no path"
        pointing.error(at, "slot-url", said)
