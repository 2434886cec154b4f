"""Small enough to read: functions, files, the hot path, the common ground."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.ground import repository
from tests.ground.repository import ROOT

HOT_PATH = [
    *sorted((ROOT / "gateway/relay").glob("*.py")),
    *(ROOT / "gateway/routing" / f"{name}.py" for name in ("choose", "limits", "health")),
]


def lines(path: Path) -> int:
    return len(path.read_text().splitlines())


def test_the_hot_path_reads_in_one_sitting() -> None:
    sizes = {repository.name(path): lines(path) for path in HOT_PATH}

    assert sum(sizes.values()) < 900, sizes


def test_the_common_ground_stays_small() -> None:
    said = [
        line
        for path in (ROOT / "common").glob("*.py")
        for line in path.read_text().splitlines()
        if line.strip()
    ]

    assert len(said) < 300


@pytest.mark.parametrize("path", repository.code(), ids=repository.name)
def test_a_file_is_one_thing(path: Path) -> None:
    assert lines(path) <= 300


@pytest.mark.parametrize("path", repository.code(), ids=repository.name)
def test_a_function_fits_a_screen(path: Path) -> None:
    functions = [
        node
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]

    long = {f.name: f.end_lineno - f.lineno + 1 for f in functions if f.end_lineno is not None}

    assert not {name: size for name, size in long.items() if size > 50}


def test_no_file_is_named_for_nothing() -> None:
    vague = {"utils", "util", "helpers", "helper", "manager", "handler", "handlers", "misc"}

    assert not [p for p in repository.code() if p.stem in vague]
