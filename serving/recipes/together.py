"""Rules between recipes: names that two of them have, containers that cannot be told apart."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from common.problems import Problem
from serving.recipes.codes import problem
from serving.recipes.defaults import DEFAULTS
from serving.recipes.recipe import Recipe


def check(recipes: Sequence[Recipe]) -> list[Problem]:
    """Every problem between them, at the later of the two files."""
    return [*_ids(recipes), *_aliases(recipes), *_containers(recipes)]


def _ids(recipes: Sequence[Recipe]) -> Iterator[Problem]:
    seen: dict[str, Recipe] = {}
    for recipe in recipes:
        first = seen.setdefault(recipe.id, recipe)
        if first is not recipe:
            said = f"the id '{recipe.id}' is taken by {first.file}"
            yield problem(recipe.place(("id",)), "id-taken", said)


def _aliases(recipes: Sequence[Recipe]) -> Iterator[Problem]:
    owners = {recipe.id: recipe for recipe in reversed(recipes)}
    for recipe in recipes:
        for i, alias in enumerate(recipe.aliases):
            first = owners.setdefault(alias, recipe)
            if first is not recipe or alias == recipe.id:
                said = f"the name '{alias}' is already that of recipe '{first.id}'"
                yield problem(recipe.place(("aliases", i)), "alias-taken", said)


def _containers(recipes: Sequence[Recipe]) -> Iterator[Problem]:
    """One name, two engines: up-detection by the container's name could not say which is up.

    Recipes of one engine may share a container: the slot holds one of them at a time.
    """
    owners = {row.container: engine for engine, row in DEFAULTS.items() if row.container}
    for recipe in recipes:
        name = recipe.container
        if name is None:
            continue
        engine = owners.setdefault(name, recipe.engine)
        if engine != recipe.engine:
            said = (
                f"the container '{name}' is one of {engine}: which engine is up could not be told"
            )
            yield problem(recipe.place((recipe.engine, "container")), "container-taken", said)
