"""The compose folder as on a node; the test of the real compose where that is installed."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.ground.repository import ROOT

# .ci/run installs it. Elsewhere the checker's own tests say what they can.
collect_ignore = [] if shutil.which("docker-compose") else ["test_real_compose.py"]


@pytest.fixture
def node(tmp_path: Path) -> Path:
    """Each template copied to the name without `.example`."""
    folder = tmp_path / "compose"
    shutil.copytree(ROOT / "compose", folder)
    for template in folder.glob("*.example"):
        shutil.copy(template, template.with_suffix(""))
    return folder
