"""The command as a person runs it: in a folder, with its output and exit code."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from gateway.cli import main
from tests.commands import Command, Golden, held_to, runs

HERE = Path(__file__).parent
GOLDEN = HERE / "golden"


Gateway = Command


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
    return runs(main, capsys)


@pytest.fixture
def golden() -> Golden:
    """Holds text to a file in tests/cli/golden. WRITE_GOLDEN=1 writes the files anew, to review."""
    return held_to(GOLDEN)
