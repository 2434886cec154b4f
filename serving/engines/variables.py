"""Environment of engines: a recipe's own, and what it takes from the slot's file by name."""

from __future__ import annotations

from collections.abc import Mapping

from serving.engines.engine import Host
from serving.engines.places import on_host
from serving.recipes.recipe import Recipe


def of_recipe(recipe: Recipe, host: Host) -> dict[str, str]:
    """What the recipe's file says."""
    return {name: on_host(value, host) for name, value in recipe.env.items()}


def of_host(recipe: Recipe, host: Host) -> dict[str, str]:
    """What it takes from the slot's file; what is not set there is left out."""
    return {name: host.env[name] for name in recipe.env_from_host if name in host.env}


def together(recipe: Recipe, host: Host, own: Mapping[str, str] | None = None) -> dict[str, str]:
    """The engine's own, over it the recipe's, over it the machine's."""
    return {**(own or {}), **of_recipe(recipe, host), **of_host(recipe, host)}
