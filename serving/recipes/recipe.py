"""A recipe: how to launch one model with one engine, as its file says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from common.problems import Place, Problem
from common.source import Path, Source
from serving.recipes.blocks import EngineBlock, Eugr
from serving.recipes.defaults import DEFAULTS
from serving.recipes.schema import (
    Context,
    EngineName,
    Generation,
    Lifecycle,
    OnLowMemory,
    RecipeFile,
    Speculative,
    Tier,
)

_AS_GIVEN: Final = (
    *("id", "name", "engine", "lifecycle", "served_name", "host", "tier", "context", "aliases"),
    *("catalog_id", "inventory_path", "deprecated", "roi_profile", "tags", "notes", "promoted_at"),
    *("generation", "speculative", "variants", "env", "env_from_host", "on_low_memory"),
)
Kind = TypeVar("Kind")


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """One recipe without errors; what its file leaves out has the engine's default."""

    id: str
    name: str
    engine: EngineName
    lifecycle: Lifecycle
    served_name: str
    port: int
    host: str
    tier: Tier
    context: Context
    block: EngineBlock
    start_timeout_s: float
    stop_grace_s: float
    min_free_gib: float
    on_low_memory: OnLowMemory
    aliases: tuple[str, ...] = ()
    catalog_id: str | None = None
    inventory_path: str | None = None
    deprecated: str | None = None
    roi_profile: str | None = None
    tags: tuple[str, ...] = ()
    notes: str | None = None
    promoted_at: str | None = None
    generation: Generation
    speculative: Speculative | None = None
    variants: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    env: Mapping[str, str] = field(default_factory=dict)
    env_from_host: tuple[str, ...] = ()
    source: Source = field(repr=False, compare=False)

    @property
    def file(self) -> str:
        """The path of its file."""
        return self.source.file

    def place(self, path: Path) -> Place:
        """Where a setting stands; the nearest above it if it is not there."""
        return self.source.place(path)

    @property
    def container(self) -> str | None:
        """The name of its container; None for an engine that is a process of the host."""
        given = self.block.options if isinstance(self.block, Eugr) else self.block
        return getattr(given, "container", None) or DEFAULTS[self.engine].container

    @property
    def may_be_default(self) -> bool:
        """True if a slot may load it without being asked: proven, and not deprecated."""
        return self.deprecated is None and self.lifecycle in ("works", "production")


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """A folder's recipes by id, without those with an error, and every problem of its files."""

    recipes: Mapping[str, Recipe]
    problems: tuple[Problem, ...] = ()

    def find(self, name: str) -> Recipe | None:
        """The recipe of this id, or else the one with this alias."""
        by_alias = (r for r in self.recipes.values() if name in r.aliases)
        return self.recipes.get(name) or next(by_alias, None)


def block_of(recipe: Recipe, kind: type[Kind]) -> Kind:
    """The engine's own part as what the reader made of it."""
    if not isinstance(recipe.block, kind):
        raise TypeError(f"recipe '{recipe.id}' is one of {recipe.engine}")
    return recipe.block


def recipe(given: RecipeFile, block: EngineBlock, floor_gib: float, source: Source) -> Recipe:
    """The file's values with the engine's defaults; `floor_gib` is what a pin asks for."""
    usual = DEFAULTS[given.engine]
    return Recipe(
        **{name: getattr(given, name) for name in _AS_GIVEN},
        port=given.port or usual.port,
        block=block,
        start_timeout_s=given.start_timeout_s or usual.start_timeout_s,
        stop_grace_s=given.stop_grace_s or usual.stop_grace_s,
        min_free_gib=floor_gib if given.min_free_gib is None else given.min_free_gib,
        source=source,
    )
