"""Engines in containers, with a scripted docker that keeps its state in a file."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import stat
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.slot.acts.plane import HERE, Engine, plane, served, standing


class FakeDocker:
    """The command, and what it has been told."""

    def __init__(self, folder: Path) -> None:
        self.state = folder / "docker.json"
        self.program = folder / "docker"
        self.program.write_text(
            f"#!/bin/sh\nFAKE_DOCKER={self.state} exec {sys.executable} -S "
            f'{HERE}/docker_program.py "$@"\n'
        )
        self.program.chmod(self.program.stat().st_mode | stat.S_IXUSR)
        self.slot = {"host": {"docker": str(self.program), "hf_home": str(folder)}}

    def rows(self) -> dict[str, Any]:
        return dict(json.loads(self.state.read_text())) if self.state.exists() else {}

    def calls(self, what: str) -> list[list[str]]:
        return [call for call in self.rows().get("calls", []) if call[0] == what]

    def containers(self) -> list[str]:
        return sorted(name for name in self.rows() if name != "calls")

    def pid(self, name: str) -> int:
        return int(self.rows()[name]["pid"])


@pytest.fixture
def docker(tmp_path: Path) -> Iterator[FakeDocker]:
    fake = FakeDocker(tmp_path)
    yield fake
    for name in fake.containers():
        os.kill(fake.pid(name), signal.SIGKILL) if _runs(fake.pid(name)) else None


def _runs(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


def vllm(**more: Any) -> Engine:
    block = {"image": "some/vllm:v1", "model": "some/model", "container": "vllm-a"}
    given = {"engine": "vllm", "vllm": block, "model": None, "llamacpp_args": None}
    return Engine(file={**given, **more})


async def test_a_container_is_started_and_its_log_kept_before_it_is_removed(
    tmp_path: Path, docker: FakeDocker
) -> None:
    async with plane(tmp_path, slot=docker.slot, a=vllm(), b=Engine()) as it:
        await it.end(await it.lease("a"))
        assert docker.containers() == ["vllm-a"]

        await it.lease("b")

        assert docker.containers() == []
        [log] = (it.run / "logs").glob("a-*.log")
        assert "a-model starts" in log.read_text()
        order = [call[0] for call in docker.rows()["calls"] if call[0] in ("logs", "stop", "rm")]
        assert order[:3] == ["logs", "stop", "rm"]


async def test_a_container_that_dies_is_noticed_at_once(tmp_path: Path, docker: FakeDocker) -> None:
    async with plane(tmp_path, slot=docker.slot, a=vllm()) as it:
        lease = await it.lease("a")
        os.kill(docker.pid("vllm-a"), signal.SIGKILL)
        found = await it.until(lambda found: "a" in found["failures"])

        assert found["failures"]["a"]["reason"] == "its container ended with 137 (out of memory)"
        assert "a-model starts" in found["failures"]["a"]["log_tail"]
        assert (await it.end(lease))["ended"] == "engine_died"


async def test_a_death_is_told_while_docker_hangs_over_the_log_which_is_kept_later(
    tmp_path: Path, docker: FakeDocker
) -> None:
    hangs = Path(f"{docker.state}.logs-hang")
    async with plane(tmp_path, slot=docker.slot, a=vllm()) as it:
        lease = await it.lease("a")
        hangs.touch()
        os.kill(docker.pid("vllm-a"), signal.SIGKILL)
        await it.until(lambda found: found["phase"] == "stopping")
        ended = await it.end(lease)
        hangs.unlink()
        await it.until(lambda found: "a" in found["failures"])
        await it.until(lambda found: found["phase"] != "stopping")

        assert ended["ended"] == "engine_died"
        [log] = (it.run / "logs").glob("a-*.log")
        assert "a-model starts" in log.read_text()


async def test_a_container_is_adopted_and_a_foreign_one_of_a_known_name_goes_before_a_start(
    tmp_path: Path, docker: FakeDocker
) -> None:
    async with standing(tmp_path, {"a": vllm(), "b": Engine()}, **docker.slot) as it:
        async with served(it):
            await it.end(await it.lease("a"))
        for file in (it.run / "slot").iterdir():
            file.unlink()

        async with served(it):
            found = await it.status()
            assert (found["phase"], found["recipe"]) == ("ready", "a")
            assert len(docker.calls("run")) == 1
            await it.lease("b")
            assert docker.containers() == []
            await it.empty()


async def test_a_container_somebody_started_by_hand_is_stopped_before_an_engine_starts(
    tmp_path: Path, docker: FakeDocker
) -> None:
    async with plane(tmp_path, slot=docker.slot, a=Engine(), c=vllm()) as it:
        hand = [str(docker.program), "run", "--name", "vllm-a", "--served-model-name", "x"]
        await (await asyncio.create_subprocess_exec(*hand, "--port", "1")).wait()

        await it.lease("a")

        assert docker.containers() == []
        assert list((it.run / "logs").glob("vllm-a-*.log"))


async def test_a_docker_that_says_no_stops_a_start(tmp_path: Path) -> None:
    broken = tmp_path / "docker"
    broken.write_text("#!/bin/sh\necho permission denied >&2\nexit 1\n")
    broken.chmod(0o700)
    slot = {"host": {"docker": str(broken)}}
    async with plane(tmp_path, slot=slot, a=Engine()) as it:
        refused = await it.ask("a")

        said = refused.json()["error"]["message"]
        assert "nobody knows whether a container holds the GPU" in said
        assert "permission denied" in said
