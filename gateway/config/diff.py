"""What an edit would change, in the terms that operators care about.

`compare` takes two checked Configs and returns rows, in this order:

    names        a group, alias or task appears, vanishes, or changes its tier or target
    reach        what a name can reach is gained, lost, or bounded otherwise
    fallbacks    the lists, and the limit on hops
    deployments  added, removed, and each setting that differs
    keys         who has which grants; never a key's value
    tiers        how requests wait
    settings     everything else in the file that has an effect

A setting that only a restart can change says so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal

from gateway.config.config import ClientKey, Config, Deployment
from gateway.config.reach import Reach, reaches
from gateway.config.wording import NOTHING, bound_text, how_text, shown

Section = Literal["names", "reach", "fallbacks", "deployments", "keys", "tiers", "settings"]
SECTIONS: tuple[Section, ...] = (
    "names",
    "reach",
    "fallbacks",
    "deployments",
    "keys",
    "tiers",
    "settings",
)

# Of a deployment: what another rule or row tells already, or what only the bridge reads.
_NOT_A_SETTING = frozenset(
    {"id", "group", "place", "upstream", "litellm_params", "api_key", "key_variable"}
)

_MAY_HOLD_SECRETS = frozenset({"defaults", "fixed"})  # whatever an engine takes in a body

# The settings of a Config by their names in the file; True: only a restart changes it.
SETTINGS: Mapping[str, tuple[str, bool]] = {
    "host": ("gateway_settings.listen (host)", True),
    "port": ("gateway_settings.listen (port)", True),
    "num_retries": ("router_settings.num_retries", False),
    "callbacks": ("litellm_settings.callbacks", True),
    "callback_content": ("gateway_settings.callback_content", True),
    "max_body_bytes": ("gateway_settings.max_body_mb (in bytes)", False),
    "hold_s": ("gateway_settings.hold_s", False),
    "heartbeat_s": ("gateway_settings.heartbeat_s", False),
    "client_write_timeout_s": ("gateway_settings.client_write_timeout_s", False),
    "drain_s": ("gateway_settings.drain_s", False),
    "overflow_max_parallel": ("gateway_settings.overflow_max_parallel", False),
    "affinity": ("gateway_settings.affinity", False),
    "rescue": ("gateway_settings.rescue", False),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One row: of what, what about it, and how it was and will be ("-" where there is nothing)."""

    section: Section
    subject: str
    what: str
    before: str
    after: str
    restart: bool = False  # named by a reload, and in force only after a restart


def compare(old: Config, new: Config) -> tuple[Change, ...]:
    """Every difference that an operator can notice; empty if there is none."""
    return (
        *_names(old, new),
        *_reach(old, new),
        *_fallbacks(old, new),
        *_deployments(old, new),
        *_keys(old, new),
        *_tiers(old, new),
        *_settings(old, new),
    )


def restart_needed(old: Config, new: Config) -> tuple[Change, ...]:
    """The differences that a reload cannot bring into force."""
    return tuple(change for change in _settings(old, new) if change.restart)


def _rows(
    section: Section,
    old: Mapping[str, str],
    new: Mapping[str, str],
    what: str,
    subject: Callable[[str], str] = str,
) -> Iterator[Change]:
    """A row for each key whose text differs, in the order of the new file, then what is gone."""
    for key in dict.fromkeys([*new, *old]):
        before, after = old.get(key, NOTHING), new.get(key, NOTHING)
        if before != after:
            yield Change(
                section=section, subject=subject(key), what=what, before=before, after=after
            )


def _names(old: Config, new: Config) -> Iterator[Change]:
    yield from _rows("names", old.tiers, new.tiers, "group in tier")
    yield from _rows("names", _aliases(old), _aliases(new), "alias for")
    yield from _rows("names", _pins(old), _pins(new), "task pinned to")


def _aliases(config: Config) -> dict[str, str]:
    return {
        a.name: f"{a.group} (not listed)" if a.hidden else a.group for a in config.aliases.values()
    }


def _pins(config: Config) -> dict[str, str]:
    return {
        f"task/{p.task}": p.group if p.fallbacks else f"{p.group}, no fallbacks"
        for p in config.pins.values()
    }


def _reach(old: Config, new: Config) -> Iterator[Change]:
    """By name and upstream, for the names that are in both files: the others are told above."""
    before, after = _ways(old), _ways(new)
    both = {name for name, _ in before} & {name for name, _ in after}
    for name, upstream in dict.fromkeys([*after, *before]):
        way = (before.get((name, upstream), NOTHING), after.get((name, upstream), NOTHING))
        if name in both and way[0] != way[1]:
            yield Change(
                section="reach",
                subject=name,
                what=f"reaches {upstream}",
                before=way[0],
                after=way[1],
            )


def _ways(config: Config) -> dict[tuple[str, str], str]:
    ways: dict[tuple[str, str], list[str]] = {}
    for reach in reaches(config):
        ways.setdefault((reach.name, str(reach.upstream)), []).append(_way(reach))
    return {key: "; ".join(dict.fromkeys(found)) for key, found in ways.items()}


def _way(reach: Reach) -> str:
    bound = bound_text(reach.bound)
    how = how_text(reach)
    if reach.swaps:
        how += ", may swap"
    if reach.overflow:
        return f"{how}, bounded overflow: {bound}"
    return f"{how}, {bound}" if bound else how


def _fallbacks(old: Config, new: Config) -> Iterator[Change]:
    yield from _rows("fallbacks", _lists(old.fallbacks), _lists(new.fallbacks), "falls back to")
    yield from _rows(
        "fallbacks",
        _lists(old.context_window_fallbacks),
        _lists(new.context_window_fallbacks),
        "hands long prompts to",
    )
    for attribute in ("default_fallbacks", "max_fallbacks"):
        before, after = getattr(old, attribute), getattr(new, attribute)
        if before != after:
            yield Change(
                section="fallbacks",
                subject="every name",
                what=attribute,
                before=shown(before),
                after=shown(after),
            )


def _lists(lists: Mapping[str, tuple[str, ...]]) -> dict[str, str]:
    return {key: shown(targets) if targets else "nothing" for key, targets in lists.items()}


def _deployments(old: Config, new: Config) -> Iterator[Change]:
    """By id: a deployment whose id says another address is another deployment."""
    before = {d.id: d for d in old.deployments}
    after = {d.id: d for d in new.deployments}
    listed = [{i: f"in group {d.group}" for i, d in side.items()} for side in (before, after)]
    yield from _rows("deployments", listed[0], listed[1], "deployment")
    for key in after:
        if key in before:
            yield from _settings_of(before[key], after[key])


def _settings_of(old: Deployment, new: Deployment) -> Iterator[Change]:
    pairs = [(f.name, getattr(old, f.name), getattr(new, f.name)) for f in fields(old)]
    for name, before, after in pairs:
        if name not in _NOT_A_SETTING and before != after:
            yield _changed("deployments", new.id, name, before, after)
    for name in ("api_key", "litellm_params"):  # values may be secrets: only that they changed
        if getattr(old, name) != getattr(new, name):
            if name == "litellm_params" and not new.bridges and not old.bridges:
                continue  # nobody reads them on a relayed deployment
            yield Change(
                section="deployments", subject=new.id, what=name, before="(old)", after="(new)"
            )


def _keys(old: Config, new: Config) -> Iterator[Change]:
    before = {k.name: k for k in old.client_keys}
    after = {k.name: k for k in new.client_keys}
    yield from _rows("keys", _grants(before), _grants(after), "may use")
    changed = [n for n, k in after.items() if n in before and before[n].key != k.key]
    if old.master_key != new.master_key:
        changed.append("master key")
    for name in changed:
        yield Change(section="keys", subject=name, what="value", before="(old)", after="(new)")


def _grants(keys: Mapping[str, ClientKey]) -> dict[str, str]:
    return {
        name: ", ".join([*sorted(k.tiers), *sorted(k.models), *(["admin"] if k.admin else [])])
        or "nothing"
        for name, k in keys.items()
    }


def _tiers(old: Config, new: Config) -> Iterator[Change]:
    for tier in dict.fromkeys([*new.tier_rules, *old.tier_rules]):
        before, after = old.tier_rules.get(tier), new.tier_rules.get(tier)
        for name in ("max_wait_s", "max_waiting", "on_saturation"):
            values = (getattr(before, name, None), getattr(after, name, None))
            if values[0] != values[1]:
                yield _changed("tiers", tier, name, *values)


def _settings(old: Config, new: Config) -> Iterator[Change]:
    for attribute, (name, restart) in SETTINGS.items():
        before, after = getattr(old, attribute), getattr(new, attribute)
        if before != after:
            yield _changed("settings", "gateway", name, before, after, restart=restart)
    yield from _slots(old, new)
    for block in ("activity", "ledger"):
        of_old, of_new = getattr(old, block), getattr(new, block)
        for name in (field.name for field in fields(of_old)):
            before, after, restart = getattr(of_old, name), getattr(of_new, name), name == "path"
            if before != after:
                what = f"gateway_settings.{block}.{name}"
                yield _changed("settings", "gateway", what, before, after, restart=restart)


def _slots(old: Config, new: Config) -> Iterator[Change]:
    sides = [{name: slot.url for name, slot in side.slots.items()} for side in (old, new)]
    yield from _rows("settings", sides[0], sides[1], "control plane", "slot {}".format)
    for name in (name for name in new.slots if name in old.slots):
        before, after = old.slots[name], new.slots[name]
        for attribute in ("on_swap", "max_hold_s", "burst_bridges_swap"):
            values = getattr(before, attribute), getattr(after, attribute)
            if values[0] != values[1]:
                yield _changed("settings", f"slot {name}", attribute, *values)
        if before.key != after.key:
            yield Change(
                section="settings",
                subject=f"slot {name}",
                what="key",
                before="(old)",
                after="(new)",
            )


def _changed(
    section: Section, subject: str, what: str, before: Any, after: Any, *, restart: bool = False
) -> Change:
    hide = what in _MAY_HOLD_SECRETS
    texts = shown(before, hide_text=hide), shown(after, hide_text=hide)
    if texts[0] == texts[1]:  # they differ only in text that is not shown
        texts = "(old)", "(new)"
    return Change(
        section=section,
        subject=subject,
        what=what,
        before=texts[0],
        after=texts[1],
        restart=restart,
    )
