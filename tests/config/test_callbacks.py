"""Callbacks are read, never run."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.config.callbacks import fault

BOMB = "raise SystemExit('imported')\n"


def test_the_projects_recorder_is_known() -> None:
    assert fault("gateway.bridge.callbacks.recorder", "config.yaml") is None


@pytest.mark.parametrize(
    "text",
    [
        "recorder = object()\n",
        "class recorder: ...\n",
        "from x import y as recorder\n",
        "recorder: object = 1\n",
        "from x import *\n",
        "if True:\n    recorder = 1\n",
    ],
)
def test_a_module_next_to_the_file_is_found_without_running_it(tmp_path: Path, text: str) -> None:
    (tmp_path / "mine.py").write_text(BOMB + text)

    assert fault("mine.recorder", str(tmp_path / "config.yaml")) is None


def test_a_package_next_to_the_file_is_found_without_running_it(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "__init__.py").write_text(BOMB)
    (tmp_path / "mine" / "inner.py").write_text(BOMB + "recorder = 1\n")

    assert fault("mine.inner.recorder", str(tmp_path / "config.yaml")) is None


@pytest.mark.parametrize(
    ("callback", "why"),
    [
        ("mine.recorde", "module mine has no `recorde`"),
        ("yours.recorder", "no module yours"),
        ("mine.deeper.recorder", "no module mine.deeper"),
        ("broken.recorder", "cannot be read as Python"),
        ("not-a-name.recorder", "no module.instance"),
        ("mine..recorder", "no module.instance"),
    ],
)
def test_what_cannot_be_imported_is_said(tmp_path: Path, callback: str, why: str) -> None:
    (tmp_path / "mine.py").write_text("recorder = 1\n")
    (tmp_path / "broken.py").write_text("recorder = (\n")

    found = fault(callback, str(tmp_path / "config.yaml"))

    assert found is not None
    assert why in found
