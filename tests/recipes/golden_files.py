"""Each golden/NAME/ is a folder of recipes with something wrong; said.txt is what the reader says.

Make the texts anew with `python -m tests.recipes.golden_files`, and read what changed: these
messages are what an operator sees.
"""

from __future__ import annotations

from pathlib import Path

from common.problems import Problem, render
from serving.recipes.load import load_folder

FOLDER = Path(__file__).parent / "golden"
SAID = "said.txt"


def names() -> list[str]:
    """The cases."""
    return sorted(path.name for path in FOLDER.iterdir() if path.is_dir())


def problems(name: str) -> tuple[Problem, ...]:
    """Everything that is wrong with a case."""
    return load_folder(FOLDER / name, drafts=True).problems


def said(name: str) -> str:
    """The same as it is printed, with places as seen from the case's folder."""
    return (render(problems(name)) or "clean").replace(f"{FOLDER / name}/", "") + "\n"


if __name__ == "__main__":
    for one in names():
        (FOLDER / one / SAID).write_text(said(one))
