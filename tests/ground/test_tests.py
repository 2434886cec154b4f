"""The tests keep their own rules: no mocks, no skips, no sleeping for luck."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from tests.ground import repository
from tests.ground.repository import ROOT

TESTS = [path for path in repository.files(".py") if ROOT / "tests" in path.parents]

# In two parts each, so that this file does not find itself.
NEVER = re.compile(
    "unittest"
    + r"\.mock|Magic"
    + "Mock|Async"
    + r"Mock|pytest\."
    + "skip|mark\\."
    + "skip|x"
    + "fail"
)
MAX_PAUSE_S = 0.5


@pytest.mark.parametrize("path", TESTS, ids=repository.name)
def test_no_test_mocks_or_skips(path: Path) -> None:
    assert not NEVER.findall(path.read_text())


@pytest.mark.parametrize("path", TESTS, ids=repository.name)
def test_no_test_waits_for_luck(path: Path) -> None:
    pauses = [
        call.args[0].value
        for call in ast.walk(ast.parse(path.read_text()))
        if isinstance(call, ast.Call)
        and isinstance(call.func, ast.Attribute)
        and call.func.attr == "sleep"
        and call.args
        and isinstance(call.args[0], ast.Constant)
    ]

    assert not [s for s in pauses if isinstance(s, int | float) and s > MAX_PAUSE_S]
