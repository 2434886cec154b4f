"""Tags: which ROI profile the tokens of a recipe or a deployment are held against.

    1. with a recipe: the recipe file's `roi_profile`, else the local map by the recipe's id
    2. without one: the deployment's `model_info.roi_profile`, else the map by its id, else by its
       model group

A deployment on a slot has what is loaded, so its recipes are never tagged through it (2). Tags
are looked up when a cost is worked out: a tag of today holds for what was counted before.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import RootModel

from common.problems import Place, Problem
from common.source import read_file
from gateway.config.config import Config
from gateway.ledger.strict import Text, did_you_mean, fit, of_this_machine, prices_in
from gateway.records.counters import Served
from gateway.records.rollups import NOBODY


class _Map(RootModel[dict[Text, Text]]):
    pass


@dataclass(frozen=True, slots=True)
class Tag:
    """The id of an ROI profile, and where a person wrote it."""

    roi: str
    place: Place


@dataclass(frozen=True, slots=True)
class Recipe:
    """What the ledger wants of a recipe file."""

    id: str
    name: str
    tag: Tag | None
    place: Place


@dataclass(frozen=True, slots=True, kw_only=True)
class Tags:
    """Every tag there is. Files in git win over the map of this machine."""

    recipes: Mapping[str, Recipe] = field(default_factory=dict)
    deployments: Mapping[str, Tag] = field(default_factory=dict)
    local: Mapping[str, Tag] = field(default_factory=dict)

    def of(self, served: Served) -> str | None:
        """The ROI profile of one who served; None where nobody named one. Cases: the module's."""
        group, deployment, recipe = served
        if recipe != NOBODY:  # 1
            file = self.recipes.get(recipe)
            tag = (file.tag if file is not None else None) or self.local.get(recipe)
        else:  # 2
            tag = self.deployments.get(deployment)
            tag = tag or self.local.get(deployment) or self.local.get(group)
        return None if tag is None else tag.roi

    def unknown(self, profiles: Mapping[str, Any], file: str) -> Iterator[Problem]:
        """Tags that name no profile of the file."""
        of_recipes = (recipe.tag for recipe in self.recipes.values())
        tags = [*of_recipes, *self.deployments.values(), *self.local.values()]
        for tag in tags:
            if tag is not None and tag.roi not in profiles:
                said = f"there is no ROI profile `{tag.roi}` in {file}"
                said += did_you_mean(tag.roi, profiles)
                yield Problem(tag.place, "error", "unknown-roi", said)


def read_recipes(folder: Path) -> tuple[Mapping[str, Recipe], tuple[Problem, ...]]:
    """The folder's recipes and its drafts, by id, as far as the ledger reads them.

    A file without `id` and `engine` is none: pins and lists lie beside the recipes. The rest of
    a recipe is for those who launch it to judge.
    """
    found: dict[str, Recipe] = {}
    problems: list[Problem] = []
    for path in recipe_files(folder):
        source = read_file(str(path))
        if source.problems or not {"id", "engine"} <= source.data.keys():
            problems += source.problems
            continue
        problems += prices_in(source)
        id_, roi = source.data["id"], source.data.get("roi_profile")
        for key, value in (("id", id_), ("roi_profile", roi)):
            if not isinstance(value, str | None) or value == "":
                said = f"`{key}` must be text that is not empty"
                problems.append(Problem(source.value((key,)), "error", "wrong-type", said))
        if not isinstance(id_, str) or not isinstance(roi, str | None):
            continue
        at = source.value(("id",))
        if id_ in found:
            said = f"the recipe `{id_}` is also in {found[id_].place.file}"
            problems.append(Problem(at, "error", "duplicate-id", said))
        tag = Tag(roi, source.value(("roi_profile",))) if roi else None
        found.setdefault(id_, Recipe(id_, str(source.data.get("name", id_)), tag, at))
    return found, tuple(problems)


def recipe_files(folder: Path) -> list[Path]:
    """Where recipes may be: in the folder, and in its drafts."""
    return sorted([*folder.glob("*.yaml"), *folder.glob("drafts/*.yaml")])


def read_map(path: Path) -> tuple[Mapping[str, Tag], tuple[Problem, ...]]:
    """The local map: recipe, deployment or model group -> ROI profile. No file: no tags."""
    source = of_this_machine(path)
    if source is None:
        return {}, ()
    fitted, problems = fit(_Map, source)
    if fitted is None:
        return {}, problems
    return {key: Tag(roi, source.value((key,))) for key, roi in fitted.root.items()}, ()


def tags_of(config: Config) -> Mapping[str, Tag]:
    """The tags of the deployments that the file tags."""
    return dict(_named(config.deployments))


def _named(deployments: Iterable[Any]) -> Iterator[tuple[str, Tag]]:
    for deployment in deployments:
        if deployment.roi_profile is not None:
            yield deployment.id, Tag(deployment.roi_profile, deployment.place)
