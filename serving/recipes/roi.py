"""Cloud identities: which model of which provider a recipe's tokens are held against. No prices.

Prices are of one machine and change; they live in its run/prices.json (prices.py).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Final

from pydantic import BeforeValidator

from common.problems import Problem, in_order
from common.source import read_file
from serving.recipes.codes import problem
from serving.recipes.fit import fit
from serving.recipes.schema import Block, Text, Texts, as_tuple

FILE: Final = "roi-profiles.yaml"


class Profile(Block):
    """One model in the cloud."""

    id: Text
    name: Text
    family: Text
    version: Text
    params: Text
    provider: Text
    model: Text
    match: Texts = ()  # served names that are the same model


class ProfilesFile(Block):
    """The file of them all."""

    profiles: Annotated[tuple[Profile, ...], BeforeValidator(as_tuple)]


def read_profiles(folder: Path) -> tuple[Mapping[str, Profile], tuple[Problem, ...]]:
    """The folder's profiles by id, and what is wrong with their file; without one, none."""
    path = folder / FILE
    if not path.is_file():
        return {}, ()
    source = read_file(str(path))
    if source.problems:
        return {}, source.problems
    fitted, problems = fit(ProfilesFile, source)
    if fitted is None:
        return {}, in_order(problems)
    found: dict[str, Profile] = {}
    for i, profile in enumerate(fitted.profiles):
        if profile.id in found:
            said = f"the ROI profile '{profile.id}' is here twice"
            problems = (*problems, problem(source.place(("profiles", i, "id")), "id-taken", said))
        found.setdefault(profile.id, profile)
    return found, in_order(problems)


def added(text: str, profile: Profile) -> str:
    """The file's text with one more profile at its end; an empty text becomes a file. Pure."""
    lines = [f"  - id: {_quoted(profile.id)}"]
    for key in ("name", "family", "version", "params", "provider", "model"):
        lines.append(f"    {key}: {_quoted(getattr(profile, key))}")
    lines += [f"    match: [{', '.join(map(_quoted, profile.match))}]"] if profile.match else []
    start = text or "profiles:\n"
    return start + ("" if start.endswith("\n") else "\n") + "\n".join(lines) + "\n"


def _quoted(value: str) -> str:
    """A text that YAML reads as the same text."""
    return json.dumps(value, ensure_ascii=False)
