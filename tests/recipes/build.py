"""Recipes for tests: a small good file, and folders of files with one thing wrong."""

from __future__ import annotations

from pathlib import Path

from serving.recipes.load import load_folder
from serving.recipes.recipe import Loaded, Recipe

ROI = """profiles:
  - id: qwen
    name: Qwen
    family: qwen
    version: "3"
    params: 27B
    provider: openrouter
    model: qwen/qwen
"""
GOOD = """id: one
name: One
engine: llamacpp
lifecycle: works
roi_profile: qwen
served_name: one
port: 8081
model: "{models}/one.gguf"
llamacpp_args: [-ngl, "999"]
context:
  default: 4096
  native: 8192
"""


def folder(tmp_path: Path, **files: str) -> Path:
    """A folder of recipes; `drafts__one` is drafts/one.yaml."""
    for name, text in {"roi-profiles": ROI, **files}.items():
        path = tmp_path / f"{name.replace('__', '/')}.yaml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path


def loaded(tmp_path: Path, **files: str) -> Loaded:
    """The same, read with its drafts."""
    return load_folder(folder(tmp_path, **files), drafts=True)


def recipe(tmp_path: Path, text: str = GOOD, **files: str) -> Recipe:
    """The recipe `one` of this text, which must be without errors."""
    found = loaded(tmp_path, one=text, **files)
    assert "one" in found.recipes, found.problems
    return found.recipes["one"]


def codes(found: Loaded) -> list[str]:
    """The codes of its problems, in the files' order."""
    return [problem.code for problem in found.problems]
