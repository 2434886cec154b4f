"""The command in the box's folder, and golden files."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.cli import main
from tests.cli.conftest import Gateway
from tests.commands import Golden, held_to, runs
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
    return runs(main, capsys)


@pytest.fixture
def golden() -> Golden:
    """Holds text to a file in tests/ledger/golden. WRITE_GOLDEN=1 writes them anew, to review."""
    return held_to(GOLDEN)
