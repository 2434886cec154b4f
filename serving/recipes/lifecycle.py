"""A recipe's way: draft, testing, works, production; or failed, from anywhere."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from serving.errors import Unusable
from serving.recipes import roi
from serving.recipes.edit import read_text, with_keys, write_text
from serving.recipes.fit import did_you_mean
from serving.recipes.recipe import Recipe
from serving.recipes.schema import Lifecycle

NEXT: Final[dict[Lifecycle, Lifecycle]] = {
    "draft": "testing",
    "testing": "works",
    "works": "production",
    "failed": "testing",
}


def promote(recipe: Recipe, folder: Path, to: Lifecycle | None, *, today: str) -> Path:
    """Set its lifecycle and the day, in place; a draft that leaves moves out of drafts/.

    Returns the file where it now is. Raises Unusable where there is no way, no cloud identity, or
    no permission.
    """
    target = to or NEXT.get(recipe.lifecycle)
    if target is None:
        raise Unusable(f"recipe '{recipe.id}' is in {recipe.lifecycle}: there is nothing above it")
    if target == "draft":
        raise Unusable(f"recipe '{recipe.id}' does not become a draft again: copy it to drafts/")
    if recipe.roi_profile is None:  # one that does not exist is an error of the file
        said = f"recipe '{recipe.id}' leaves draft only with a ROI profile: "
        raise Unusable(said + f"`serving recipe roi {recipe.id} ROI_ID`, or roi-new")
    here = Path(recipe.file)
    there = folder / here.name
    wanted = {"lifecycle": target, "promoted_at": today}
    text = with_keys(read_text(here), wanted, after="lifecycle")
    if there != here and there.exists():
        raise Unusable(f"there is already a recipe {there}")
    write_text(there, text)
    if there != here:
        _remove(here)
    return there


def _remove(path: Path) -> None:
    try:
        path.unlink()
    except OSError as error:
        raise Unusable(f"cannot remove the draft {path}: {error.strerror or error}") from error


def set_roi(recipe: Recipe, folder: Path, roi_id: str) -> None:
    """Set its cloud identity, in place. Raises Unusable for one that is not there."""
    profiles, _ = roi.read_profiles(folder)
    if roi_id not in profiles:
        raise Unusable(
            f"the ROI profile '{roi_id}' is not in {folder / roi.FILE}"
            f"{did_you_mean(roi_id, profiles)}: `serving recipe roi-new` adds one"
        )
    write_text(Path(recipe.file), with_roi(recipe, roi_id))


def with_roi(recipe: Recipe, roi_id: str) -> str:
    """The recipe's file with this cloud identity. Raises Unusable where a line cannot say it."""
    return with_keys(read_text(Path(recipe.file)), {"roi_profile": roi_id}, after="lifecycle")
