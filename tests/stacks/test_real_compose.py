"""Debian's docker-compose reads every file with its template, as on a node, without a complaint."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
import yaml

from common.source import read_file
from tests.ground.repository import ROOT

FILES = sorted((ROOT / "compose").glob("*.yaml"))


def config(node: Path, file: Path, *options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["docker-compose", *options, "-f", file.name, "config"],
        cwd=node,
        capture_output=True,
        text=True,
        env={"PATH": os.environ["PATH"], "HOME": str(node)},
    )


@pytest.mark.parametrize("file", FILES, ids=lambda f: f.stem)
def test_the_real_compose_accepts_a_file_with_its_template(file: Path, node: Path) -> None:
    done = config(node, file, "--env-file", f"{file.stem}.env")

    assert done.returncode == 0, done.stderr
    assert "not set" not in done.stderr
    always = {
        name
        for name, service in read_file(str(file)).data["services"].items()
        if "profiles" not in service
    }
    assert always <= set(yaml.safe_load(done.stdout)["services"])


@pytest.mark.parametrize("file", FILES, ids=lambda f: f.stem)
def test_the_real_compose_refuses_a_file_without_its_variables(file: Path, node: Path) -> None:
    done = config(node, file)

    assert done.returncode != 0
