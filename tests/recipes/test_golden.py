"""What the reader says about recipe files, place by place, and that each code has its case."""

from __future__ import annotations

import re

import pytest

from serving.recipes.codes import CODES
from tests.ground.repository import ROOT
from tests.recipes.golden_files import FOLDER, SAID, names, problems, said

DOCS = ROOT / "docs" / "recipes.md"
YAMLS_OWN = {"yaml", "duplicate-key", "key-type", "unreadable", "empty-file", "not-a-mapping"}


@pytest.mark.parametrize("name", names())
def test_the_reader_says_what_is_wrong_where_and_what_to_do(name: str) -> None:
    """CFG-10 is `port` and `port-of-a-service`."""
    assert said(name) == (FOLDER / name / SAID).read_text()


def test_each_code_has_a_case() -> None:
    shown = {problem.code for name in names() for problem in problems(name)}

    assert shown - YAMLS_OWN == set(CODES)


def test_each_code_has_its_reason_in_the_docs() -> None:
    text = DOCS.read_text().split("## Codes")[1].split("\n## ")[0]
    rows = re.findall(r"^\| (`[^|]+) \| (.+) \|$", text, re.MULTILINE)
    told = {code: "(warning)" in cell for cell, _ in rows for code in re.findall("`(.+?)`", cell)}

    assert told == {code: severity == "warning" for code, severity in CODES.items()}


def test_every_problem_of_a_file_is_shown_at_once() -> None:
    shown = [problem.code for problem in problems("shape")]

    assert len(shown) >= 6
