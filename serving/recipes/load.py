"""A folder of recipe files as recipes, or every problem of them at once.

The steps of one file: YAML with places (common/source.py); its shape (fit.py); the files that it
names (named.py); rules within it (rules.py). Then rules between files (together.py). A file with an
error is left out; the others can be loaded all the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from common.problems import Problem, has_errors, in_order
from common.source import Source, read_file
from serving.recipes import roi, rules, together
from serving.recipes.fit import fit
from serving.recipes.named import named
from serving.recipes.recipe import Loaded, Recipe, recipe
from serving.recipes.schema import RecipeFile

FOLDER: Final = Path(__file__).parent  # the recipes that come with the package
DRAFTS: Final = "drafts"


def load_folder(folder: Path = FOLDER, *, drafts: bool = False) -> Loaded:
    """The recipes of `folder`, and with `drafts` those of its drafts/ too; never raises."""
    profiles, problems = roi.read_profiles(folder)
    found: list[Problem] = list(problems)
    good: list[Recipe] = []
    for path in files(folder, drafts=drafts):
        made, wrong = load_file(path, folder, profiles)
        found += wrong
        good += [made] if made else []
    between = together.check(good)
    found += between
    bad = {p.place.file for p in between if p.severity == "error"}
    kept = sorted((r for r in good if r.file not in bad), key=lambda r: r.id)
    return Loaded(recipes={r.id: r for r in kept}, problems=in_order(found))


def files(folder: Path, *, drafts: bool) -> list[Path]:
    """The recipe files of a folder, in order; what lies in other folders is no recipe."""
    found = sorted(path for path in folder.glob("*.yaml") if path.name != roi.FILE)
    return found + (sorted((folder / DRAFTS).glob("*.yaml")) if drafts else [])


def load_file(
    path: Path, folder: Path, profiles: Mapping[str, roi.Profile]
) -> tuple[Recipe | None, tuple[Problem, ...]]:
    """One file, alone; None where it has an error."""
    return load_source(read_file(str(path)), folder, profiles)


def load_source(
    source: Source, folder: Path, profiles: Mapping[str, roi.Profile]
) -> tuple[Recipe | None, tuple[Problem, ...]]:
    """A file that is read already."""
    if source.problems:
        return None, source.problems
    given, problems = fit(RecipeFile, source)
    if given is None:
        return None, in_order(problems)
    in_drafts = Path(source.file).parent != folder
    found = [*rules.of_the_file(given, source, profiles, in_drafts=in_drafts)]
    block, floor_gib, more = named(given, folder, source)
    found += more
    if block is None:
        return None, in_order(found)
    made = recipe(given, block, floor_gib, source)
    found += rules.of_the_recipe(made)
    return None if has_errors(found) else made, in_order(found)
