"""The command as a person runs it: in a folder, with its output and exit code."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from gateway.cli import main

HERE = Path(__file__).parent
GOLDEN = HERE / "golden"


@dataclass(frozen=True, slots=True)
class Ran:
    """What a command left: exit code, stdout, stderr."""

    code: int
    out: str
    err: str


Gateway = Callable[..., Ran]
Golden = Callable[[str, str], None]


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the node's config.yaml and node.env, which commands run in."""
    shutil.copy(HERE / "node.yaml", tmp_path / "config.yaml")
    shutil.copy(HERE / "node.env", tmp_path / "node.env")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def gateway(node: Path, capsys: pytest.CaptureFixture[str]) -> Gateway:
    """Runs `gateway ARGS` in the node's folder."""

    def run(*args: str) -> Ran:
        capsys.readouterr()
        try:
            code = main(args)
        except SystemExit as end:  # argparse's own way out
            code = int(end.code or 0)
        out, err = capsys.readouterr()
        return Ran(code, out, err)

    return run


@pytest.fixture
def golden() -> Golden:
    """Holds text to a file in tests/cli/golden. WRITE_GOLDEN=1 writes the files anew, to review."""

    def same(name: str, text: str) -> None:
        file = GOLDEN / name
        if os.environ.get("WRITE_GOLDEN"):
            file.write_text(text)
        assert text == file.read_text()

    return same
