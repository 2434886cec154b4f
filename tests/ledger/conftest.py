"""The command in the box's folder, and golden files."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gateway.cli import main
from tests.cli.conftest import Gateway, Golden, Ran
from tests.ledger import box

GOLDEN = Path(__file__).parent / "golden"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The box's folder, which commands run in. Nothing is counted yet."""
    box.build(tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def gateway(folder: Path, capsys: pytest.CaptureFixture[str]) -> Gateway:
    """Runs `gateway ARGS` there."""

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
    """Holds text to a file in tests/ledger/golden. WRITE_GOLDEN=1 writes them anew, to review."""

    def same(name: str, text: str) -> None:
        file = GOLDEN / name
        if os.environ.get("WRITE_GOLDEN"):
            file.write_text(text)
        assert text == file.read_text()

    return same
