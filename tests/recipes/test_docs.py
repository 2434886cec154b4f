"""docs/recipes.md tells the truth: its commands parse, its keys are those of the schema."""

from __future__ import annotations

import re
import shlex

import pytest

from serving import cli
from serving.recipes.schema import RecipeFile
from tests.ground.repository import ROOT
from tests.ground.test_docs import shell_lines

PAGE = "docs/recipes.md"
COMMANDS = [line for page, line in shell_lines() if page == PAGE]


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_of_the_page_is_one_the_program_knows(command: str) -> None:
    words = shlex.split(command, comments=True)

    assert words[0] == "serving"
    try:
        cli._parser(words[1]).parse_args(words[1:])
    except SystemExit:
        pytest.fail(command)


def test_every_action_is_shown() -> None:
    shown = {command.split()[2] for command in COMMANDS}

    assert shown == {"list", "show", "check", "scaffold", "roi", "roi-new", "promote"}


def test_every_key_of_a_recipe_and_of_its_blocks_is_explained() -> None:
    told = set(re.findall(r"`([\w-]+)`", (ROOT / PAGE).read_text()))
    keys = set(RecipeFile.model_fields)
    for field in ("eugr", "vllm", "sglang", "flashnext", "tensorfold", "embedded"):
        block = next(
            kind
            for kind in RecipeFile.model_fields[field].annotation.__args__  # type: ignore[union-attr]
            if kind is not type(None)
        )
        keys |= set(block.model_fields)

    assert keys <= told
