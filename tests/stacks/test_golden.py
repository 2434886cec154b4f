"""What the checker says about compose files, place by place, and that each code has its case."""

from __future__ import annotations

import re

import pytest

from serving.stacks.codes import CODES
from tests.ground.repository import ROOT
from tests.stacks.golden_files import FOLDER, VARIABLES, names, problems, said
from tests.stacks.test_routing import ROUTED_CODES

DOCS = ROOT / "docs" / "stacks.md"


@pytest.mark.parametrize("name", names())
def test_the_checker_says_what_is_wrong_where_and_what_to_do(name: str) -> None:
    expected = (FOLDER / f"{name}.txt").read_text()

    assert said(name) == expected


@pytest.mark.parametrize("name", names())
def test_no_message_shows_a_key(name: str) -> None:
    secrets = [VARIABLES["KEY"], "sk-in-the-file", "hunter22"]

    assert not [secret for secret in secrets if secret in said(name)]


def test_each_code_has_a_case() -> None:
    shown = {problem.code for name in names() for problem in problems(name)}

    assert shown | ROUTED_CODES == set(CODES)


def test_each_code_has_its_reason_in_the_docs() -> None:
    codes = DOCS.read_text().split("## Codes")[1].split("## What it found")[0]
    rows = re.findall(r"^\| (`[^|]+) \| (.+) \|$", codes, re.MULTILINE)
    told = {code: "(warning)" in cell for cell, _ in rows for code in re.findall("`(.+?)`", cell)}

    assert told == {code: severity == "warning" for code, severity in CODES.items()}


def test_a_case_says_in_its_first_line_what_it_shows() -> None:
    first = {p.name: p.read_text().splitlines()[0] for p in FOLDER.glob("*.yaml")}

    assert not [name for name, line in first.items() if not re.match(r"# [A-Z]", line)]
