"""Names that point at other names: aliases, fallbacks, pins, tiers. Each must lead somewhere."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from common.problems import Problem
from common.source import Path, Source
from gateway.config import known, schema
from gateway.config.config import Alias, Deployment, Pin, TierName, TierRule

# How requests wait at their caps, unless the file says else: no burst request ever waits.
RULES: Final[Mapping[TierName, TierRule]] = {
    "interactive": TierRule(max_wait_s=10.0, max_waiting=64),
    "auxiliary": TierRule(max_wait_s=10.0, max_waiting=64),
    "background": TierRule(max_wait_s=60.0, max_waiting=256),
    "burst": TierRule(max_wait_s=0.0, max_waiting=0),
}

Lists = Mapping[str, tuple[str, ...]]


@dataclass(slots=True, kw_only=True)
class Names:
    """What there is to point at, and the problems found on the way."""

    source: Source
    groups: frozenset[str]
    hidden_groups: frozenset[str] = frozenset()  # named by entries that could not be read
    aliases: Mapping[str, Alias] = field(default_factory=dict)
    tasks: frozenset[str] = frozenset()
    problems: list[Problem] = field(default_factory=list)

    def error(self, path: Path, code: str, message: str, *, key: bool = False) -> None:
        at = self.source.place(path) if key else self.source.value(path)
        self.problems.append(Problem(at, "error", code, message))

    def warning(self, path: Path, code: str, message: str) -> None:
        self.problems.append(Problem(self.source.value(path), "warning", code, message))

    def is_group(self, name: str, path: Path, code: str, told: str, *, key: bool = False) -> bool:
        """True if `name` is a model group; else the problem that begins with `told`."""
        if name in self.groups:
            return True
        if name in self.hidden_groups or not (self.groups or self.hidden_groups):
            return False  # its entry has a problem of its own, or there is none at all
        if (alias := self.aliases.get(name)) is not None:
            self.error(
                path, code, f"{told} '{name}', an alias: write '{alias.group}', its group", key=key
            )
            return False
        near = known.did_you_mean(name, self.groups)
        self.error(path, code, f"{told} '{name}', which is not defined{near}", key=key)
        return False

    def target(self, name: str, path: Path, code: str, told: str) -> str | None:
        """The group that `name` leads to: itself, or an alias's group; None with a problem."""
        if (alias := self.aliases.get(name)) is not None and name not in self.groups:
            return alias.group
        return name if self.is_group(name, path, code, told) else None


def aliases(names: Names, given: Mapping[str, schema.AliasItem]) -> dict[str, Alias]:
    """Aliases that lead to a group."""
    found: dict[str, Alias] = {}
    names.aliases = {}  # an alias of an alias is no group
    for name, item in given.items():
        path: Path = ("router_settings", "model_group_alias", name)
        if "*" in name or "*" in item.model:
            names.error(path, "wildcard", f"alias '{name}': wildcard names are not served")
        elif name in names.groups:
            said = f"'{name}' is a model group: an alias of that name would never be asked for"
            names.error(path, "alias-is-group", said, key=True)
        elif name.startswith("task/"):
            said = f"'{name}' begins with task/, which asks for a pinned task: choose another name"
            names.error(path, "reserved-name", said, key=True)
        elif item.model in given and item.model not in names.groups:
            said = f"alias '{name}' leads to '{item.model}', another alias: name the model group"
            names.error(path, "alias-of-alias", said)
        elif names.is_group(item.model, path, "unknown-alias", f"alias '{name}' leads to"):
            found[name] = Alias(name=name, group=item.model, hidden=item.hidden)
    names.aliases = found
    return found


def fallbacks(names: Names, block: str, kind: str, given: schema.Targets | None) -> Lists:
    """One list of fallbacks: group or alias -> groups, in order."""
    found: dict[str, tuple[str, ...]] = {}
    for i, item in enumerate(given or ()):
        path: Path = (block, kind, i)
        if len(item) > 1:
            names.warning(
                path, "fallback-shape", "LiteLLM reads only the first key here: one group an entry"
            )
        for name, targets in item.items():
            here: Path = (*path, name)
            if name == "*":
                names.error(
                    here, "wildcard", "a fallback for every name is default_fallbacks", key=True
                )
            elif name in found:
                said = f"'{name}' already has {kind} above: LiteLLM would use only the first list"
                names.error(here, "duplicate-fallback", said, key=True)
            elif name in names.aliases or names.is_group(
                name, here, "unknown-fallback", f"{kind} are given for", key=True
            ):
                found[name] = tuple(_targets(names, here, f"'{name}'", kind, targets))
    return found


def default_fallbacks(names: Names, block: str, given: Iterable[str] | None) -> tuple[str, ...]:
    """The fallbacks of every name without its own."""
    path: Path = (block, "default_fallbacks")
    return tuple(_targets(names, path, "every name", "default_fallbacks", given or ()))


def _targets(
    names: Names, path: Path, who: str, kind: str, targets: Iterable[str]
) -> Iterable[str]:
    verb = "falls back to"
    for i, target in enumerate(targets):
        here = (*path, i)
        if "*" in target:
            names.error(here, "wildcard", f"{kind}: wildcard names are not served")
            continue
        found = names.target(target, here, "unknown-fallback", f"{_who(names, who)} {verb}")
        if found is not None:
            yield found


def _who(names: Names, who: str) -> str:
    name = who.strip("'")
    return f"group {who}" if name in names.groups else f"alias {who}" if who != name else who


def pins(names: Names, given: Mapping[str, schema.PinItem]) -> dict[str, Pin]:
    """Tasks that lead to a group."""
    found: dict[str, Pin] = {}
    for task, item in given.items():
        path: Path = ("gateway_settings", "task_pins", task)
        bare = task.removeprefix("task/")
        if bare != task or "*" in task or not task.isprintable() or " " in task:
            names.error(
                path,
                "task-name",
                f"`{task}` is no name for a task: clients send it in a header, without spaces,"
                " wildcards or task/ before it",
                key=True,
            )
        if names.is_group(item.model, path, "unknown-pin", f"task '{task}' is pinned to"):
            found[task] = Pin(task=task, group=item.model, fallbacks=item.fallbacks)
    names.tasks = frozenset(given)
    return found


def tiers(
    names: Names, given: Mapping[TierName, schema.Tier] | None, deployments: Iterable[Deployment]
) -> dict[str, TierName]:
    """Every group's tier; a group of text that is in none is left out (and is another's rule)."""
    first: dict[str, Deployment] = {}
    for deployment in deployments:
        first.setdefault(deployment.group, deployment)
    if given is None:
        return _without_tiers(names, first)
    found: dict[str, TierName] = {}
    for tier, block in given.items():
        for i, name in enumerate(block.models):
            path: Path = ("gateway_settings", "tiers", tier, "models", i)
            if not names.is_group(name, path, "unknown-group", f"tier {tier} names"):
                continue
            if name in found:
                other = found[name]
                said = (
                    f"in tier {other} and in tier {tier}" if other != tier else f"twice in {tier}"
                )
                names.error(path, "two-tiers", f"group '{name}' is {said}: it has one tier")
            found.setdefault(name, tier)
    for group, deployment in first.items():
        if group not in found and deployment.mode in ("embedding", "rerank"):
            found[group] = _lane_tier(deployment)
    return found


def _without_tiers(names: Names, first: Mapping[str, Deployment]) -> dict[str, TierName]:
    """Somebody's LiteLLM file: what people wait for is not known, so all of it is."""
    if all(d.mode in ("embedding", "rerank") for d in first.values()):
        return {group: _lane_tier(d) for group, d in first.items()}
    at = names.source.values.get((), names.source.place(()))
    said = (
        f"there is no gateway_settings.tiers: all groups ({', '.join(first)}) are taken as"
        " interactive, so nothing keeps background work apart"
    )
    names.problems.append(Problem(at, "warning", "no-tiers", said))
    return dict.fromkeys(first, "interactive")


def _lane_tier(deployment: Deployment) -> TierName:
    return "background" if deployment.lane == "ingest" else "auxiliary"


def tier_rules(given: Mapping[TierName, schema.Tier] | None) -> dict[TierName, TierRule]:
    """Each tier's queue and what follows it, defaults filled in."""
    rules: dict[TierName, TierRule] = {}
    for tier, rule in RULES.items():
        block = (given or {}).get(tier, schema.Tier())
        wait, waiting = block.queue.max_wait_s, block.queue.max_waiting
        rules[tier] = TierRule(
            max_wait_s=rule.max_wait_s if wait is None else wait,
            max_waiting=rule.max_waiting if waiting is None else waiting,
            on_saturation=block.on_saturation or rule.on_saturation,
        )
    return rules
