"""The house of the design stands: import contracts, and what one import may bring."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.ground.repository import ROOT

BIN = Path(sys.executable).parent


def test_the_import_contracts_hold() -> None:
    done = subprocess.run(
        [BIN / "lint-imports", "--no-logo", "--no-cache"], cwd=ROOT, capture_output=True, text=True
    )

    assert done.returncode == 0, done.stdout


def test_the_command_line_starts_without_litellm() -> None:
    code = "import sys, gateway.cli; sys.exit('litellm' in sys.modules)"

    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT).returncode == 0
