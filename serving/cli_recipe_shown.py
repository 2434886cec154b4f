"""Recipes as rows, lines and data: what `serving recipe list`, `show` and `check` print."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from typing import Any, Final

from pydantic import BaseModel

from serving.recipes.recipe import Loaded, Recipe

HEADS: Final = ("id", "engine", "tier", "lifecycle", "port", "context", "served as", "roi", "name")
_LISTED: Final = (
    *("id", "name", "aliases", "catalog_id", "inventory_path", "engine", "tier", "lifecycle"),
    *("served_name", "port", "container", "roi_profile", "deprecated", "tags", "file"),
)


def row(recipe: Recipe) -> tuple[str, ...]:
    """One line of the list."""
    name = recipe.name + (" (deprecated)" if recipe.deprecated else "")
    return (
        *(recipe.id, recipe.engine, recipe.tier, recipe.lifecycle, str(recipe.port)),
        *(str(recipe.context.default), recipe.served_name, recipe.roi_profile or "-", name),
    )


def listed(loaded: Loaded) -> list[dict[str, Any]]:
    """The list as data: the same facts, by their names in the file."""
    return [
        {
            **{key: _plain(getattr(recipe, key)) for key in _LISTED},
            "context": _plain(recipe.context),
            "variants": sorted(recipe.variants),
            "default": recipe.may_be_default,
        }
        for recipe in loaded.recipes.values()
    ]


def data(recipe: Recipe) -> dict[str, Any]:
    """Everything about one."""
    known = {f.name: getattr(recipe, f.name) for f in fields(recipe) if f.name != "source"}
    return {**{name: _plain(value) for name, value in known.items()}, "file": recipe.file}


def lines(recipe: Recipe) -> Iterator[str]:
    """One fact a line; what is not said is left out."""
    yield from _lines("", data(recipe))


def _lines(indent: str, values: Mapping[str, Any]) -> Iterator[str]:
    for name, value in values.items():
        if value in (None, [], {}, ""):
            continue
        if isinstance(value, dict):
            yield f"{indent}{name}"
            yield from _lines(indent + "  ", value)
        elif isinstance(value, list):
            yield f"{indent}{name}: {' '.join(map(str, value))}"
        else:
            text = str(value).lower() if isinstance(value, bool) else str(value).strip()
            yield f"{indent}{name}: " + text.replace("\n", f"\n{indent}  ")


def summed_up(loaded: Loaded) -> str:
    """The last line of a check."""
    errors = sum(p.severity == "error" for p in loaded.problems)
    warnings = len(loaded.problems) - errors
    said = f"{_many(len(loaded.recipes), 'recipe')}: {_many(errors, 'error')}"
    return said + (f" and {_many(warnings, 'warning')}" if warnings else "")


def _many(count: int, what: str) -> str:
    return f"{count or 'no'} {what}{'' if count == 1 else 's'}"


def _plain(value: Any) -> Any:
    """Data as JSON has it."""
    if isinstance(value, BaseModel):
        return _plain(value.model_dump())
    if is_dataclass(value) and not isinstance(value, type):
        return {f.name: _plain(getattr(value, f.name)) for f in fields(value)}
    if isinstance(value, Mapping):
        return {name: _plain(inner) for name, inner in value.items()}
    if isinstance(value, tuple | list):
        return [_plain(inner) for inner in value]
    return value
