"""The docs tell the truth: their commands parse, their make targets and sections exist."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from gateway import cli
from tests.ground import repository
from tests.ground.repository import ROOT

PAGES = [p for p in repository.files(".md") if p.name != "CHANGELOG.md"]
SECTIONS = [
    *("Contents", "Routing", "Serving", "Benchmark", "Incidents"),
    *("Operating rules", "Operation", "Limitations", "License"),
]


def shell_lines() -> list[tuple[str, str]]:
    """(page, command) of every line after a prompt in a block of a page; continuations joined."""
    found: list[tuple[str, str]] = []
    for page in PAGES:
        for block in re.findall(r"```(?:console|bash|sh)\n(.*?)```", page.read_text(), re.DOTALL):
            for line in block.replace("\\\n", " ").splitlines():
                if line.startswith("$ "):
                    found.append((repository.name(page), line[2:]))
    return found


def gateway_commands() -> list[tuple[str, str]]:
    """Each `gateway ...` among them, up to a pipe or the next command."""
    found = []
    for page, line in shell_lines():
        for part in re.split(r"\s(?:&&|\|\||[|;>])\s", line):
            if match := re.match(r"(?:\.venv/bin/)?gateway (.*)", part.strip()):
                found.append((page, match[1].replace("$C", "-c config.yaml")))
    return found


def test_the_readme_shows_commands() -> None:
    commands = {shlex.split(command)[0] for _, command in gateway_commands()}

    assert {"serve", "check", "routes", "explain", "diff", "activity"} <= commands


@pytest.mark.parametrize(("page", "command"), gateway_commands())
def test_a_command_in_the_docs_is_one_the_program_knows(page: str, command: str) -> None:
    try:
        cli._parser().parse_args(shlex.split(command, comments=True))
    except SystemExit:
        pytest.fail(f"{page}: gateway {command}")


def test_each_make_target_in_the_docs_exists() -> None:
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    text = "\n".join(page.read_text() for page in PAGES)

    assert set(re.findall(r"`(?:\w+=\S+ )*make ([a-z]+)`", text)) <= targets
    assert {"install", "run", "test", "bench", "lock"} <= targets


def test_the_readme_has_its_sections() -> None:
    headings = re.findall(r"^## (.+)$", (ROOT / "README.md").read_text(), re.MULTILINE)

    assert not [section for section in SECTIONS if section not in headings]


def test_the_first_commands_a_reader_sees_are_the_two_that_serve() -> None:
    first = [command for page, command in shell_lines() if page == "README.md"][:2]

    assert first[0].startswith("git clone ")
    assert first[1] == "make run"


@pytest.mark.parametrize("page", PAGES, ids=repository.name)
def test_a_path_that_a_page_names_exists(page: Path) -> None:
    named = re.findall(
        r"`((?:common|gateway|serving|tests|tools|docs|bench)/[\w./-]+)`", page.read_text()
    )

    assert not [name for name in named if not (ROOT / name).exists()]


@pytest.mark.parametrize("page", PAGES, ids=repository.name)
def test_no_output_is_left_to_be_filled_in(page: Path) -> None:
    assert "@@" not in page.read_text()
