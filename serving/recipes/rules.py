"""Rules within one recipe: what the shape of the file cannot say."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import PurePath
from typing import Final

from common.problems import Problem
from common.source import Path, Source
from serving.recipes import agreement
from serving.recipes.codes import problem
from serving.recipes.defaults import DEFAULTS
from serving.recipes.fit import did_you_mean
from serving.recipes.recipe import Recipe
from serving.recipes.roi import Profile
from serving.recipes.schema import RecipeFile

ID: Final = re.compile(r"[a-z0-9](?:[a-z0-9._-]*[a-z0-9])?")
SECRET: Final = re.compile(r"(?:^|[_-])(?:KEY|APIKEY|TOKEN|SECRET|PASSWORD)$", re.IGNORECASE)
PLACEHOLDERS: Final = ("models", "hf_home")  # what a path may begin with; filled in per machine
_BRACED: Final = re.compile(r"\{([A-Za-z_]\w*)\}")
_LOOPBACK: Final = ("127.0.0.1", "localhost", "::1")
_OWN: Final = {key for row in DEFAULTS.values() for key in (*row.needs, *row.may)}


def of_the_file(
    given: RecipeFile, source: Source, profiles: Mapping[str, Profile], *, in_drafts: bool
) -> Iterator[Problem]:
    """What needs only the file itself."""
    yield from _identity(given, source)
    yield from _lifecycle(given, source, profiles, in_drafts=in_drafts)
    yield from _other_engines(given, source)
    yield from _texts(source)
    for name in given.env:
        if SECRET.search(name):
            said = f"`env.{name}` looks like a secret, and git keeps it: name it in `env_from_host`"
            yield problem(source.place(("env", name)), "secret", said)
    if given.host not in _LOOPBACK:
        said = f"`host` is {given.host}: an engine without a key is for this machine, 127.0.0.1"
        yield problem(source.value(("host",)), "public-host", said)


def of_the_recipe(recipe: Recipe) -> Iterator[Problem]:
    """What needs the files that it names, too."""
    yield from agreement.check(recipe)
    yield from _context(recipe)
    yield from _image(recipe)
    if recipe.deprecated and recipe.lifecycle == "production":
        said = "it is deprecated and in production: no slot takes it as its default"
        yield problem(recipe.place(("deprecated",)), "deprecated", said)


def _identity(given: RecipeFile, source: Source) -> Iterator[Problem]:
    aliases: list[tuple[Path, str]] = [(("aliases", i), a) for i, a in enumerate(given.aliases)]
    for path, name in (("id",), given.id), *aliases:
        if not ID.fullmatch(name):
            said = f"`{name}` must be small letters, digits and . _ - between them"
            yield problem(source.value(path), "id-format", said)
    stem = PurePath(source.file).stem
    if given.id != stem:
        said = f"the id is '{given.id}' and the file is {stem}.yaml: they must be the same"
        yield problem(source.value(("id",)), "id-file", said)


def _lifecycle(
    given: RecipeFile, source: Source, profiles: Mapping[str, Profile], *, in_drafts: bool
) -> Iterator[Problem]:
    """1. A draft stands in drafts/, and nothing else does. 2. What is no draft has an identity."""
    if (given.lifecycle == "draft") != in_drafts:  # 1
        said = "drafts stand in drafts/, and nothing else does: `serving recipe promote` moves it"
        yield problem(source.value(("lifecycle",)), "draft-place", said)
    if given.lifecycle != "draft" and given.roi_profile is None:  # 2
        said = f"leaving draft needs a `roi_profile`: `serving recipe roi {given.id} ROI_ID`"
        yield problem(source.value(("lifecycle",)), "roi-missing", said)
    if given.roi_profile is not None and given.roi_profile not in profiles:
        said = f"the ROI profile '{given.roi_profile}' is not in roi-profiles.yaml"
        said += did_you_mean(given.roi_profile, profiles)
        yield problem(source.value(("roi_profile",)), "roi-unknown", said)


def _other_engines(given: RecipeFile, source: Source) -> Iterator[Problem]:
    row = DEFAULTS[given.engine]
    for key in sorted(_OWN - {*row.needs, *row.may}):
        if getattr(given, key) is not None:
            said = f"`{key}` belongs to another engine: this recipe is of {given.engine}"
            yield problem(source.place((key,)), "other-engine", said)


def _texts(source: Source) -> Iterator[Problem]:
    """A name in braces that no machine fills in would stay as it is, in a path that is none."""
    for path, text in source.texts.items():
        if path and path[0] in ("notes", "variants"):
            continue
        for name in _BRACED.findall(text):
            if name not in PLACEHOLDERS:
                said = f"`{{{name}}}` is not filled in: there are {{models}} and {{hf_home}}"
                said += did_you_mean(name, PLACEHOLDERS)
                yield problem(source.value(path), "placeholder", said)


def _context(recipe: Recipe) -> Iterator[Problem]:
    context = recipe.context
    if context.native is None:
        return
    asked: list[tuple[Path, int]] = [(("context", "default"), context.default)]
    for name, preset in context.presets.items():
        if not preset.extended:
            asked.append((("context", "presets", name, "ctx"), preset.ctx))
    for path, tokens in asked:
        if tokens > context.native:
            said = f"{tokens} tokens are more than the model's own {context.native}"
            said += ": a longer preset says `extended: true`"
            yield problem(recipe.source.value(path), "context-native", said)


def _image(recipe: Recipe) -> Iterator[Problem]:
    image = getattr(recipe.block, "image", None)
    if not isinstance(image, str) or "@" in image:
        return
    _, _, tag = image.rpartition("/")[2].partition(":")
    if tag in ("", "latest"):
        said = f"the image {image} names no release: another one runs after the next pull"
        yield problem(recipe.source.value((recipe.engine, "image")), "image-tag", said)
