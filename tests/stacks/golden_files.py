"""Each golden/NAME.yaml is one mistake, or a few of a kind; NAME.txt is what the checker says.

Its first line says what it shows. Files named NAME.1.yaml, NAME.2.yaml stand on one host. Make the
texts anew with `python -m tests.stacks.golden_files`, and read what changed: these messages are
what an operator sees.
"""

from __future__ import annotations

from pathlib import Path

from common.problems import Problem, render
from common.source import read
from serving.stacks.check import check
from serving.stacks.compose import Stack, stack

FOLDER = Path(__file__).parent / "golden"
VARIABLES = {
    "LAN_IP": "192.0.2.10",
    "EMPTY": "",
    "MODEL_DIR": "/srv/models/one",
    "KEY": "sk-from-the-shell-0123456789",
}


def names() -> list[str]:
    """The cases: one name for each file, or for each numbered row of files."""
    return sorted({path.name.partition(".")[0] for path in FOLDER.glob("*.yaml")})


def stacks(name: str) -> list[Stack]:
    """The stacks of a case, named as they are in its text."""
    paths = sorted(FOLDER.glob(f"{name}.*yaml"))
    return [stack(read(path.read_bytes(), path.name), VARIABLES) for path in paths]


def problems(name: str) -> tuple[Problem, ...]:
    """Everything that is wrong with a case."""
    return check(stacks(name))


def said(name: str) -> str:
    """Everything the checker says about a case, one line a problem."""
    return (render(problems(name)) or "clean") + "\n"


if __name__ == "__main__":
    for one in names():
        (FOLDER / f"{one}.txt").write_text(said(one))
