"""Callbacks are checked without running them: the module's file is found and read, not imported."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterable
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Final

# This project's recorder for the stock proxy. It is known, and never called here.
RECORDER: Final = "gateway.bridge.callbacks.recorder"


def fault(callback: str, config_path: str) -> str | None:
    """Why `module.instance` cannot be imported; None if it can, as far as reading tells.

    As LiteLLM does, a file next to the config is found first.
    """
    if callback == RECORDER:
        return None
    module, _, instance = callback.rpartition(".")
    if not all(part.isidentifier() for part in callback.split(".")):
        return "that is no module.instance"
    beside = Path(config_path).parent
    file = beside.joinpath(*module.split(".")).with_suffix(".py")
    if not file.is_file():
        try:
            found = _module_file(module.split("."), [str(beside), *sys.path])
        except (ImportError, ValueError) as error:
            return f"module {module} cannot be found: {error}"
        if found is None:
            return f"there is no module {module} next to the file or on Python's path"
        file = found
    return _without(file, module, instance)


def _module_file(parts: list[str], path: Iterable[str]) -> Path | None:
    """The file of a module, found package by package: no parent is imported on the way."""
    where = list(path)
    name = ""
    spec = None
    for part in parts:
        name = f"{name}.{part}" if name else part
        spec = PathFinder.find_spec(name, where)
        if spec is None:
            return None
        where = list(spec.submodule_search_locations or ())
    return Path(spec.origin) if spec and spec.origin else None


def _without(file: Path, module: str, instance: str) -> str | None:
    if file.suffix != ".py":
        return None  # compiled: it can only be tried
    try:
        tree = ast.parse(file.read_bytes())
    except (OSError, SyntaxError, ValueError):
        return f"module {module} cannot be read as Python"
    names = _top_level(tree)
    if instance in names or "*" in names:
        return None
    return f"module {module} has no `{instance}`"


def _top_level(tree: ast.Module) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            names |= {alias.asname or alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
        elif isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            names.add(node.name)
    return names
