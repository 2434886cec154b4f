"""`gateway restart` on real processes: the new file serves, or the earlier one serves again."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from gateway.restart import KNOWN_GOOD, STATE
from tests.node import ENVIRON
from tests.served import free_port

FILE = """\
model_list:
  - model_name: {name}
    litellm_params: {{model: hosted_vllm/m, api_base: "http://127.0.0.1:9/v1"}}
general_settings: {{master_key: os.environ/GATEWAY_MASTER_KEY}}
gateway_settings:
  tiers: {{interactive: {{models: [{name}]}}}}
  listen: "{listen}"
  activity: {{path: run/activity.jsonl}}
"""


def pid_in(folder: Path) -> int:
    return int(json.loads((folder / "run" / STATE).read_text())["pid"])


def runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def until(true: object, within_s: float = 20.0) -> None:
    ends = time.monotonic() + within_s
    while not true():  # type: ignore[operator]
        assert time.monotonic() < ends, "it took too long"
        time.sleep(0.05)  # between two looks at a process that is no child


@pytest.fixture
def node(tmp_path: Path, free_port: int) -> Iterator[Path]:
    """A folder whose gateway serves; whoever serves from it at the end is stopped."""
    write(tmp_path, "first", free_port)
    command = [sys.executable, "-m", "gateway.cli", "serve", "-c", "config.yaml"]
    with (tmp_path / "first.log").open("wb") as log:
        process = subprocess.Popen(
            command,
            cwd=tmp_path,
            env={**os.environ, **ENVIRON, "PYTHONPATH": str(Path.cwd())},
            stdout=log,
            stderr=log,
        )
    until((tmp_path / "run" / STATE).exists)
    yield tmp_path
    last = pid_in(tmp_path)
    if runs(last):
        os.kill(last, signal.SIGTERM)
    until(lambda: process.poll() is not None and not runs(last))


@pytest.fixture(name="free_port")
def _free_port() -> int:
    return free_port()


def write(folder: Path, name: str, port: int | str) -> None:
    listen = port if isinstance(port, str) else f"127.0.0.1:{port}"
    (folder / "config.yaml").write_text(FILE.format(name=name, listen=listen))


def restart(folder: Path, *more: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "gateway.cli", "restart", "--wait", "15", *more]
    return subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(Path.cwd())},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_the_new_file_serves_with_the_keys_of_the_old_process(node: Path, free_port: int) -> None:
    before = pid_in(node)
    write(node, "second", free_port)

    done = restart(node)

    assert done.returncode == 0, done.stdout
    assert "live:" in done.stdout
    assert pid_in(node) != before
    assert not runs(before)
    assert "second" in (node / "run" / KNOWN_GOOD).read_text()


def test_a_file_with_errors_touches_nothing(node: Path, free_port: int) -> None:
    before = pid_in(node)
    (node / "config.yaml").write_text("model_list: 7\n")

    done = restart(node)

    assert done.returncode == 1
    assert "nothing was touched" in done.stdout
    assert runs(before)


def test_a_start_that_fails_is_taken_back(node: Path, free_port: int) -> None:
    """The file is right, and the address that it listens on is not this machine's."""
    write(node, "second", "192.0.2.1:9000")

    done = restart(node)

    assert done.returncode == 1
    assert "live again with the earlier file" in done.stdout
    assert runs(pid_in(node))
    assert "first" in (node / "run" / KNOWN_GOOD).read_text()


def test_it_goes_on_when_its_caller_is_killed(node: Path, free_port: int) -> None:
    before = pid_in(node)
    write(node, "second", free_port)
    command = [sys.executable, "-m", "gateway.cli", "restart"]
    caller = subprocess.Popen(
        command,
        cwd=node,
        env={**os.environ, "PYTHONPATH": str(Path.cwd())},
        stdout=subprocess.DEVNULL,
    )
    until((node / "run" / "restart.log").exists)
    caller.kill()
    caller.wait()

    # Until it is through: a new process that dies while it is watched would be replaced.
    until(lambda: "live:" in (node / "run" / "restart.log").read_text())

    assert pid_in(node) != before
    assert "second" in (node / "config.yaml").read_text()


def test_nothing_to_restart_is_said(tmp_path: Path) -> None:
    done = restart(tmp_path)

    assert done.returncode == 1
    assert "nothing serves from run" in done.stderr
