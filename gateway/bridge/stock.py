"""What this project's reading of the file says about names, for records of the stock proxy.

LiteLLM ignores tiers and tasks, and gives deployments ids of its own. The recorder looks both up
here, so that its records say the same as this gateway's. A file that this gateway would refuse is
still recorded: then what only the checker knows is left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from gateway.config import revision
from gateway.config.addresses import upstream as upstream_of
from gateway.config.config import Config, Deployment
from gateway.config.load import load
from gateway.routing.table import Route, RouteTable, build


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """A deployment as records name it."""

    deployment: str
    upstream: str | None
    group: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Names:
    """One revision of the file. `config` is None where the checker finds an error in it."""

    revision: str
    config: Config | None = None
    table: RouteTable | None = None

    def route(self, name: str | None) -> Route | None:
        """Where a name leads, if it is one of the file's."""
        return self.table.routes.get(name) if self.table is not None and name else None

    def tier(self, group: str | None) -> str | None:
        """A group's tier."""
        return self.config.tiers.get(group) if self.config is not None and group else None

    def served(self, group: str | None, model_id: str, model: str, api_base: str | None) -> Served:
        """The deployment that the proxy chose: by its id in the file, else by where it is.

        The proxy names the group as it was asked for, which may be an alias.
        """
        route = self.route(group)
        group = route.group if route is not None else group
        for one in () if self.config is None else self.config.deployments:
            if one.group == group and _is(one, model_id, model, api_base):
                return Served(deployment=one.id, upstream=str(one.upstream), group=group)
        address = str(upstream_of(api_base)) if api_base else None
        return Served(deployment=model_id, upstream=address, group=group)


def _is(one: Deployment, model_id: str, model: str, api_base: str | None) -> bool:
    if one.id == model_id:
        return True
    same_model = model in (one.served_name, f"{one.provider}/{one.served_name}")
    # A provider with an address of its own has none in the file.
    return same_model and one.api_base in (None, (api_base or "").rstrip("/"))


def read(path: str | None, environ: Mapping[str, str]) -> Names:
    """The names in the file at `path`; None: the proxy did not say which file it serves."""
    if path is None:
        return Names(revision="unknown")
    config = load(path, environ).config
    if config is not None:
        return Names(revision=str(config.revision), config=config, table=build(config))
    try:
        with open(path, "rb") as file:  # noqa: PTH123 - as the checker opens it
            return Names(revision=str(revision.of_file(path, file.read())))
    except (OSError, ValueError):
        return Names(revision="unknown")
