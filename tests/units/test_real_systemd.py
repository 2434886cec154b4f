"""The real systemd reads the units without a complaint, and makes their users."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.units.reading import FILES, PROGRAMS, UNITS


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """The units as copies whose programs exist."""
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("gateway", "serving"):
        (programs / name).write_text("#!/bin/sh\n")
        (programs / name).chmod(0o755)
    for file in FILES:
        copy = file.read_text().replace(PROGRAMS, f"{programs}/")
        (tmp_path / file.name).write_text(copy)
    return tmp_path


def verify(*files: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["systemd-analyze", "verify", "--man=no", "--recursive-errors=no", *map(str, files)],
        capture_output=True,
        text=True,
        check=False,
    )


def of_ours(said: str, folder: Path) -> list[str]:
    """Lines about these units: what else this machine has is not ours to mend."""
    names = [file.name for file in FILES]
    return [x for x in said.splitlines() if str(folder) in x or any(n in x for n in names)]


@pytest.mark.parametrize("name", [file.name for file in FILES])
def test_systemd_takes_a_unit_without_a_complaint(name: str, installed: Path) -> None:
    done = verify(installed / name)

    assert of_ours(done.stderr, installed) == []
    assert done.returncode == 0, done.stderr


def test_systemd_would_complain(installed: Path) -> None:
    """Else the test above would prove nothing."""
    unit = installed / FILES[0].name
    unit.write_text(unit.read_text().replace("KillMode=mixed", "KillMode=gently\nKilMode=mixed"))

    said = "\n".join(of_ours(verify(unit).stderr, installed))

    assert "gently" in said
    assert "KilMode" in said


def test_systemd_makes_the_users(tmp_path: Path) -> None:
    (tmp_path / "etc").mkdir()

    done = subprocess.run(
        ["systemd-sysusers", f"--root={tmp_path}", str(UNITS / "signalbox.sysusers")],
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    made = (tmp_path / "etc/passwd").read_text()
    assert "signalbox:x:" in made
    assert "signalbox-slot:x:" in made
