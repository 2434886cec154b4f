"""The Containerfiles, as far as they can be held without an engine that builds them."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from serving.stacks.check import check
from serving.stacks.compose import env_file, own_env_file, read_stack
from tests.ground.repository import ROOT

FILES = sorted(p for p in (ROOT / "compose").glob("Containerfile.*") if p.suffix != ".dockerignore")


def lines(file: Path) -> list[tuple[str, str]]:
    """(instruction, what follows) of each line; continuations joined, comments left out."""
    text = re.sub(r"\\\n\s*", " ", file.read_text())
    found = [line.split(" ", 1) for line in text.splitlines() if line and not line.startswith("#")]
    return [(word, rest) for word, rest in found]


def copied(file: Path) -> list[str]:
    """What is copied out of the repository."""
    copies = [rest for word, rest in lines(file) if word == "COPY" and "--from" not in rest]
    return [name for rest in copies for name in rest.split()[:-1]]


@pytest.mark.parametrize("file", FILES, ids=lambda f: f.suffix[1:])
def test_what_is_copied_exists_and_is_let_through(file: Path) -> None:
    ignore = Path(f"{file}.dockerignore").read_text().splitlines()

    assert ignore[1] == "*"
    for name in copied(file):
        assert (ROOT / name).exists(), name
        assert f"!{name}" in ignore


@pytest.mark.parametrize("file", FILES, ids=lambda f: f.suffix[1:])
def test_the_base_is_a_release_that_can_be_replaced_by_its_digest(file: Path) -> None:
    bases = {rest.split()[0] for word, rest in lines(file) if word == "FROM"}
    (base,) = (rest for word, rest in lines(file) if word == "ARG" and rest.startswith("BASE="))

    assert bases == {"${BASE}"}
    assert re.search(r":3\.\d+\.\d+-slim-\w+$", base)


@pytest.mark.parametrize("file", FILES, ids=lambda f: f.suffix[1:])
def test_it_runs_as_a_user_of_its_own_and_gets_its_signals(file: Path) -> None:
    last = dict(lines(file))  # the last of each instruction

    assert last["USER"] == "10001:10001"
    assert "ENTRYPOINT" not in last
    assert json.loads(last["CMD"])[0] in ("gateway", "serving")  # a list: no shell between


@pytest.mark.parametrize("file", FILES, ids=lambda f: f.suffix[1:])
def test_compose_starts_it_with_the_command_it_has(file: Path) -> None:
    name = {"gateway": "gateway", "embeddings": "query"}[file.suffix[1:]]
    path = str(ROOT / "compose" / f"{file.suffix[1:]}.yaml")
    service = next(
        s for s in read_stack(path, env_file(own_env_file(path) or "")).services if s.name == name
    )

    command = json.loads(dict(lines(file))["CMD"])
    verbs = command[: command.index("serve") + 1]
    assert service.data["command"][: len(verbs)] == verbs
    assert service.data["build"]["dockerfile"] == f"compose/{file.name}"


@pytest.mark.parametrize("file", FILES, ids=lambda f: f.suffix[1:])
def test_the_locks_are_installed_by_hash(file: Path) -> None:
    installs = [rest for word, rest in lines(file) if word == "RUN" and " -r " in rest]

    assert installs
    assert all("--require-hashes" in rest for rest in installs)


def test_what_is_copied_is_enough_for_both_commands(tmp_path: Path) -> None:
    """The last `pip install` of the gateway's file, with what is copied and nothing else."""
    file = ROOT / "compose" / "Containerfile.gateway"
    for name in copied(file):
        target = tmp_path / "build" / name
        target.parent.mkdir(parents=True, exist_ok=True)
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        copy(ROOT / name, target)
    line = [rest for word, rest in lines(file) if word == "RUN" and rest.endswith(" .")][-1]
    options = line.split(" install ")[1].split()

    subprocess.run(
        [sys.executable, "-m", "pip", "install", "--target", tmp_path / "site", *options],
        cwd=tmp_path / "build",
        check=True,
        capture_output=True,
    )

    shutil.copy(ROOT / "config.example.yaml", tmp_path / "config.yaml")
    found = run_from(tmp_path, "import gateway, serving; print(gateway.__file__, serving.__file__)")
    assert all(path.startswith(str(tmp_path / "site")) for path in found.split())
    run_from(
        tmp_path, "from gateway.cli import main; assert main(['check', '--no-env', FILE]) == 0"
    )
    run_from(tmp_path, "from serving.cli import main; main(['stacks', 'check', FILE])")


def run_from(folder: Path, code: str) -> str:
    """The output of some Python on the packages installed there, away from this repository."""
    done = subprocess.run(
        [sys.executable, "-P", "-c", f"FILE = 'config.yaml'; {code}"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(folder / "site")},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_images_of_this_repository_carry_its_release() -> None:
    version = re.search(r'^version = "(.+)"', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    assert version
    for stem in ("gateway", "embeddings"):
        path = str(ROOT / "compose" / f"{stem}.yaml")
        variables = env_file(own_env_file(path) or "")

        assert variables["SIGNALBOX_VERSION"] == version[1]
        assert not check([read_stack(path, variables)])
