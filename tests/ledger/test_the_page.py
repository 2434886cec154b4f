"""docs/ledger.md: each of its commands is run on the box, and prints what the page shows."""

from __future__ import annotations

import os
import re
import shlex
from pathlib import Path

from tests.cli.conftest import Gateway
from tests.ground.repository import ROOT
from tests.ledger import box

PAGE = ROOT / "docs/ledger.md"
BLOCK = re.compile(r"```console\n(.*?)```", re.DOTALL)
COMMAND = re.compile(r"^\$ gateway (.*)\n", re.MULTILINE)


def test_the_page_shows_what_the_commands_print(gateway: Gateway, folder: Path) -> None:
    (folder / "run/prices.json").unlink()
    box.count(folder, box.month())
    text = PAGE.read_text()

    def printed(block: re.Match[str]) -> str:
        outputs = []
        for command in COMMAND.findall(block[1]):
            if command == "usage backfill":  # what it is for
                box.older(folder)
            ran = gateway(*shlex.split(command))
            assert ran.code == 0, (command, ran.err)
            outputs.append(f"$ gateway {command}\n{ran.out}")
        return "```console\n" + "".join(outputs) + "```"

    right = BLOCK.sub(printed, text)

    if os.environ.get("WRITE_GOLDEN"):
        PAGE.write_text(right)
    assert PAGE.read_text() == right
