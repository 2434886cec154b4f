"""`gateway aliases`: every name that a client can send, in one place."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from gateway.cli_files import Unusable, checked, complain
from gateway.cli_tables import print_json, print_table
from gateway.config.config import Config, Deployment
from gateway.config.reach import Name, Reach, names, reaches

SHAPE = 1  # of the JSON; a later number may add keys, and only a larger one may take them away


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """A name, and the deployments of its own group with how it reaches each."""

    name: Name
    hidden: bool
    members: tuple[tuple[Deployment, Reach], ...]

    @property
    def swaps(self) -> bool | None:
        """May it have a recipe loaded; None where none of its deployments is on a slot."""
        on_slots = [reach.swaps for member, reach in self.members if member.slot is not None]
        return any(on_slots) if on_slots else None


def aliases(args: argparse.Namespace) -> int:
    """Print every name; 1 if the file has errors."""
    try:
        config = checked(args)
    except Unusable as error:
        return complain(str(error))
    found = tuple(served(config))
    if args.json:
        print_json(_data(config, found))
    else:
        heads = ("name", "kind", "group", "tier", "served by", "may swap")
        print_table(heads, [_row(config, one) for one in found])
    return 0


def served(config: Config) -> Iterator[Served]:
    """Names in the order of the file: groups, aliases, tasks."""
    members = {d.id: d for d in config.deployments}
    own: dict[str, list[Reach]] = {}
    for reach in reaches(config):
        if reach.depth == 0:
            own.setdefault(reach.name, []).append(reach)
    for name in names(config):
        alias = config.aliases.get(name.name) if name.kind == "alias" else None
        found = tuple((members[r.deployment], r) for r in own.get(name.name, ()))
        yield Served(name=name, hidden=alias is not None and alias.hidden, members=found)


def _row(config: Config, one: Served) -> Sequence[str]:
    kind = f"{one.name.kind} (not listed)" if one.hidden else one.name.kind
    by = dict.fromkeys(_by(member) for member, _ in one.members)
    swaps = {None: "-", True: "yes", False: "no"}[one.swaps]
    group = one.name.group
    return one.name.name, kind, group, config.tiers[group], ", ".join(by), swaps


def _by(member: Deployment) -> str:
    return f"{member.upstream} {member.variant}" if member.variant else str(member.upstream)


def _data(config: Config, found: Sequence[Served]) -> dict[str, Any]:
    return {
        "shape": SHAPE,
        "file": config.path,
        "config": str(config.revision),
        "names": [
            {
                "name": one.name.name,
                "kind": one.name.kind,
                "group": one.name.group,
                "tier": config.tiers[one.name.group],
                "hidden": one.hidden,
                "may_swap": one.swaps,
                "deployments": [_member(member, reach) for member, reach in one.members],
            }
            for one in found
        ],
    }


def _member(member: Deployment, reach: Reach) -> dict[str, Any]:
    return {
        "id": member.id,
        "upstream": str(member.upstream),
        "slot": member.slot,
        "recipe": member.recipe,
        "variant": member.variant,
        "may_swap": reach.swaps,
    }
