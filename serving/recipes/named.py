"""The engine's own part of a recipe, with the files that it names: a service, a pin."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel

from common.problems import Problem
from common.source import Source, read_file
from serving.recipes.blocks import Ds4, Embedded, EngineBlock, Eugr, Llamacpp, Sparkinfer
from serving.recipes.codes import problem
from serving.recipes.defaults import DEFAULTS
from serving.recipes.fit import fit
from serving.recipes.pins import Ds4Pin, SparkinferPin
from serving.recipes.schema import EmbeddedOptions, EugrOptions, RecipeFile
from serving.recipes.service import Service, ServiceFile

Fitted = TypeVar("Fitted", bound=BaseModel)
Made = tuple[EngineBlock | None, float, tuple[Problem, ...]]


def named(given: RecipeFile, folder: Path, source: Source) -> Made:
    """The block (None: nothing to run), the free memory in GiB that its pin asks for, problems."""
    lacks = [key for key in DEFAULTS[given.engine].needs if getattr(given, key) is None]
    if lacks:
        said = f"a recipe of {given.engine} needs `{lacks[0]}`"
        return None, 0, (problem(source.place(("engine",)), "missing-key", said),)
    match given.engine:
        case "eugr":
            return _eugr(given, folder, source)
        case "sparkinfer":
            return _sparkinfer(given, folder, source)
        case "ds4":
            return _ds4(given, folder, source)
        case "llamacpp":
            block = Llamacpp(model=given.model or "", args=given.llamacpp_args or ())
            return block, 0, ()
        case "embedded":
            options = given.embedded or EmbeddedOptions()
            return Embedded(model=given.model or "", options=options), 0, ()
        case "vllm" | "sglang" | "flashnext" | "tensorfold":
            return getattr(given, given.engine), 0, ()


def _eugr(given: RecipeFile, folder: Path, source: Source) -> Made:
    file, problems, path = _read(ServiceFile, given.eugr_recipe, "eugr_recipe", folder, source)
    if file is None:
        return None, 0, problems
    service = Service(path=str(path.absolute()), file=file)
    return Eugr(service=service, options=given.eugr or EugrOptions()), 0, problems


def _sparkinfer(given: RecipeFile, folder: Path, source: Source) -> Made:
    pin, problems, _ = _read(SparkinferPin, given.pin, "pin", folder, source)
    if pin is None:
        return None, 0, problems
    return Sparkinfer(pin=pin), pin.runtime.min_avail_gib_before_up, problems


def _ds4(given: RecipeFile, folder: Path, source: Source) -> Made:
    block = Ds4(model=given.model or "", args=given.ds4_args or (), pin=None)
    if given.pin is None:
        return block, 0, ()
    pin, problems, _ = _read(Ds4Pin, given.pin, "pin", folder, source)
    if pin is None:
        return None, 0, problems
    return replace(block, pin=pin), pin.runtime.min_avail_mb_before_up / 1024, problems


def _read(
    model: type[Fitted], name: str | None, key: str, folder: Path, source: Source
) -> tuple[Fitted | None, tuple[Problem, ...], Path]:
    """The file that a recipe names, from the folder of recipes on; its problems have its places."""
    path = folder / (name or "")
    if not path.is_file():
        code = "service-file" if key == "eugr_recipe" else "pin-file"
        said = f"there is no file {name} in the folder of recipes"
        return None, (problem(source.value((key,)), code, said),), path
    inner = read_file(str(path))
    if inner.problems:
        return None, inner.problems, path
    fitted, problems = fit(model, inner)
    return fitted, problems, path
