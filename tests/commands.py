"""Commands as a person runs them, in this process, and what they print against golden files."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest


@dataclass(frozen=True, slots=True)
class Ran:
    """What a command left: exit code, stdout, stderr."""

    code: int
    out: str
    err: str


Command = Callable[..., Ran]
Golden = Callable[[str, str], None]


def runs(
    main: Callable[[Sequence[str]], int],
    capsys: pytest.CaptureFixture[str],
    before: Sequence[str] = (),
    after: Sequence[str] = (),
) -> Command:
    """Runs `main` with the arguments given, between those that every call has."""

    def run(*args: str) -> Ran:
        capsys.readouterr()
        try:
            code = main([*before, *args, *after])
        except SystemExit as end:  # argparse's own way out
            code = int(end.code or 0)
        out, err = capsys.readouterr()
        return Ran(code, out, err)

    return run


def held_to(folder: Path) -> Golden:
    """Holds text to a file in a folder. WRITE_GOLDEN=1 writes the files anew, to review."""

    def same(name: str, text: str) -> None:
        if os.environ.get("WRITE_GOLDEN"):
            (folder / name).write_text(text)
        assert text == (folder / name).read_text()

    return same
