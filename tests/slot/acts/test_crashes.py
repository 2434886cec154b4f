"""kill -9 of the control plane: engines run on, and the next one adopts or ends them."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from serving.slot import family, proc
from serving.slot.family import Mark
from tests.slot.acts.plane import Engine, Process, plane, process, served, standing

SLOW = {"rules": {"drain_s": 10.0, "stop_grace_s": 2.0, "adopted_grace_s": 1.0}}


async def _into(phase: str, one: Process) -> dict[str, Any] | None:
    """Bring recipe `a` to this phase, with the lease held then; `b` is wanted in the last two."""
    it = one.it
    if phase == "starting":
        await it.switch("a")
        await it.until(lambda _: bool(it.events("start")))
        return None
    lease = await it.lease("a")
    if phase == "stopping":
        await it.end(lease)
    await it.switch("b", confirm=True)
    await it.phase(phase)
    return lease


@pytest.mark.parametrize("phase", ["starting", "draining", "stopping"])
async def test_killed_in_any_phase_it_is_followed_by_one_that_goes_on(
    tmp_path: Path, phase: str
) -> None:
    stubborn = Engine(load_s=0.4, ignores_term=phase == "stopping", file={"stop_grace_s": 1.0})
    async with process(tmp_path, slot=SLOW, a=stubborn, b=Engine()) as one:
        lease = await _into(phase, one)
        one.kill()
        assert len(one.it.alive()) == 1

        await one.start()

        if phase == "starting":
            found = await one.it.phase("ready")
            assert found["recipe"] == "a"
            assert [row["who"] for row in one.it.events("start")] == ["a-model"]
        if phase == "draining":
            found = await one.it.status()
            assert (found["phase"], found["recipe"]) in (("ready", "a"), ("draining", "a"))
            assert lease is not None
            row = {"lease": lease["lease"], "recipe": "a"}
            await one.it.client.post("/api/slot/lease/renew", json={"leases": [row]})
            assert (await one.it.end(lease))["ended"] == "given_back"
        assert (await one.it.lease("b"))["recipe"] == "b"
        assert len(one.it.alive()) == 1
        assert one.terminate() == 0
        assert len(one.it.alive()) == 1


async def test_a_lease_of_the_engine_that_was_adopted_is_taken_up_by_its_renewal(
    tmp_path: Path,
) -> None:
    async with process(tmp_path, a=Engine(), b=Engine()) as one:
        lease = await one.it.lease("a")
        one.kill()
        await one.start()
        body = {"leases": [{"lease": lease["lease"], "recipe": "a"}]}

        answer = await one.it.client.post("/api/slot/lease/renew", json=body)

        assert answer.json() == {"lost": []}
        found = await one.it.status()
        assert (found["phase"], found["recipe"], found["leases"]) == ("ready", "a", 1)
        assert len(one.it.events("start")) == 1
        waiting = asyncio.create_task(one.it.ask("b"))
        await one.it.until(lambda found: bool(found["waiting"]))
        assert await asyncio.to_thread(one.terminate) == 0
        told = await waiting
        assert (told.status_code, told.json()["error"]["code"]) == (503, "loading")
        assert len(one.it.alive()) == 1


async def test_a_second_control_plane_in_the_same_folder_is_refused(tmp_path: Path) -> None:
    async with process(tmp_path, a=Engine()) as one:
        file = tmp_path / "other.yaml"
        file.write_text(one.it.file.read_text().replace(str(one.it.port), "18999"))

        second = await asyncio.to_thread(
            subprocess.run,
            [sys.executable, "-m", "serving.cli", "slot", "serve", "-c", str(file)],
            capture_output=True,
            text=True,
            check=False,
        )

        assert second.returncode == 1
        assert "another control plane works in " in second.stderr


async def test_an_engine_that_was_never_noted_is_found_by_its_variable(tmp_path: Path) -> None:
    """As after a kill between the start and the note of its process id."""
    async with standing(tmp_path, {"a": Engine(), "b": Engine()}) as it:
        async with served(it):
            await it.end(await it.lease("a"))
        note = it.run / "slot/engine.json"
        data = json.loads(note.read_text())
        note.write_text(json.dumps(data | {"pid": None, "started": None, "ready": False}))

        async with served(it):
            found = await it.phase("ready")
            assert found["recipe"] == "a"
            await it.lease("b")
            assert len(it.alive()) == 1
            await it.empty()


async def test_without_any_note_an_engine_is_still_found_and_no_second_one_starts(
    tmp_path: Path,
) -> None:
    async with standing(tmp_path, {"a": Engine(), "b": Engine()}) as it:
        async with served(it):
            await it.end(await it.lease("a"))
        for file in (it.run / "slot").iterdir():
            file.unlink()

        async with served(it):
            assert (await it.phase("ready"))["recipe"] == "a"
            assert len(it.events("start")) == 1
            await it.empty()


async def test_a_recipe_that_is_gone_is_a_stranger_and_goes(tmp_path: Path) -> None:
    async with standing(tmp_path, {"a": Engine(), "b": Engine()}) as it:
        async with served(it):
            await it.end(await it.lease("a"))
        (tmp_path / "recipes/a.yaml").unlink()

        async with served(it):
            await it.phase("stopped")
            assert not it.alive()


async def test_a_process_id_that_a_stranger_got_is_left_alone(tmp_path: Path) -> None:
    stranger = subprocess.Popen(["sleep", "30"], start_new_session=True)  # noqa: ASYNC220
    try:
        async with standing(tmp_path, {"a": Engine()}) as it:
            (it.run / "slot").mkdir(parents=True)
            mark = Mark(
                id="ab",
                recipe="a",
                folder=str(it.run / "slot"),
                port=it.engine_port,
                log="",
                boot=proc.boot_id(),
                began=time.time(),
                pid=stranger.pid,
                started=1,
                ready=True,
            )
            (it.run / "slot/engine.json").write_text(json.dumps(mark.as_data()))

            async with served(it):
                assert (await it.status())["phase"] == "stopped"
                await it.lease("a")
                assert stranger.poll() is None
                await it.empty()
            assert stranger.poll() is None
    finally:
        stranger.kill()
        stranger.wait()


async def test_a_second_engine_of_this_slot_is_ended_when_the_first_is_adopted(
    tmp_path: Path,
) -> None:
    async with standing(tmp_path, {"a": Engine()}) as it:
        async with served(it):
            await it.end(await it.lease("a"))
        text = f"cd:a:{it.run / 'slot'}"
        stray = subprocess.Popen(  # noqa: ASYNC220
            ["sleep", "30"], start_new_session=True, env={**os.environ, family.VARIABLE: text}
        )

        async with served(it):
            assert (await it.status())["phase"] == "ready"
            assert stray.wait(1) == -signal.SIGTERM
            await it.empty()


async def test_failures_and_loads_outlive_the_control_plane(tmp_path: Path) -> None:
    async with standing(tmp_path, {"a": Engine(dies_after_s=0.05, load_s=1), "b": Engine()}) as it:
        async with served(it):
            await it.ask("a")
            await it.end(await it.lease("b"))
        async with served(it):
            found = await it.status()

            assert found["failures"]["a"]["count"] == 1
            assert "it ended with code 3" in found["failures"]["a"]["reason"]
            assert found["loads"]["b"]["count"] == 1
            await it.empty()


async def test_state_that_cannot_be_read_is_no_end(tmp_path: Path) -> None:
    (tmp_path / "run/slot").mkdir(parents=True)
    for name in ("state.json", "engine.json"):
        (tmp_path / "run/slot" / name).write_text('{"phase": ')
    async with plane(tmp_path, a=Engine()) as it:
        assert (await it.lease("a"))["recipe"] == "a"
