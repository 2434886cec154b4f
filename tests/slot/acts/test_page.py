"""docs/slot.md tells the truth: its commands parse, its tables are those of the code."""

from __future__ import annotations

import re
import shlex

import pytest

from serving import cli
from serving.recipes.load import load_folder
from serving.slot.dry import dry_run
from serving.slot.settings import RuleBlock, _File
from tests.ground.repository import ROOT
from tests.ground.test_docs import shell_lines

PAGE = (ROOT / "docs/slot.md").read_text()
COMMANDS = [
    # What follows several spaces is what the command is for.
    (page, re.split(r"\s{2,}", line.strip())[0].removeprefix("serving "))
    for page, line in shell_lines()
    if line.startswith("serving slot")
]


@pytest.mark.parametrize(("page", "command"), COMMANDS)
def test_a_command_in_the_docs_is_one_the_program_knows(page: str, command: str) -> None:
    try:
        cli._parser("slot").parse_args(shlex.split(command, comments=True))
    except SystemExit:
        pytest.fail(f"{page}: serving {command}")


def test_each_command_has_a_line_on_the_page() -> None:
    shown = {command.split()[1] for page, command in COMMANDS if page == "docs/slot.md"}

    assert shown == {
        *("serve", "check", "status", "list", "up", "switch", "down", "logs", "bench", "help")
    }


@pytest.mark.parametrize("name", [*_File.model_fields, *RuleBlock.model_fields])
def test_each_setting_has_a_row(name: str) -> None:
    assert re.search(rf"^\| [^|]*`{name}`", PAGE, re.MULTILINE), name


def test_each_default_in_the_table_is_the_codes() -> None:
    for name, field in RuleBlock.model_fields.items():
        row = re.search(rf"^\| `{name}` \| ([^|]+) \|", PAGE, re.MULTILINE)
        if row:
            assert row[1] == (f"{field.default:g}" if field.default is not True else "true")


@pytest.mark.parametrize("id_", load_folder(drafts=True).recipes)
def test_each_recipe_of_the_package_has_a_dry_run_on_any_machine(id_: str) -> None:
    shown = dry_run(None, id_, ctx=None, kv=None, preset=None)

    assert shown.startswith("port ")
    assert "\nrun " in shown


def test_each_route_has_a_row() -> None:
    source = (ROOT / "serving/slot/api.py").read_text()
    paths = set(re.findall(r'_route\("(/api/slot/[a-z/]+)', source))

    assert not [path for path in paths if path.rstrip("/") not in PAGE]
