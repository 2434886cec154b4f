"""Ends: slow ones, forced ones, deaths, and what an engine leaves behind."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

import pytest

from serving.slot import proc
from tests.slot.acts.plane import Engine, plane


@pytest.mark.parametrize("bad", [Engine(ignores_term=True), Engine(leaves_child=True)])
async def test_nothing_starts_before_the_old_engine_and_its_children_are_gone(
    tmp_path: Path, bad: Engine
) -> None:
    """SWP-12: it ignores the signal, or a child in a session of its own does."""
    async with plane(tmp_path, a=bad, b=Engine()) as it:
        await it.end(await it.lease("a"))
        old = set(it.alive())

        await it.lease("b")

        assert not [pid for pid in old if proc.process(pid)]
        assert len(it.alive()) == 1


async def test_the_child_of_an_engine_that_was_killed_is_ended_before_the_next(
    tmp_path: Path,
) -> None:
    async with plane(tmp_path, a=Engine(leaves_child=True), b=Engine()) as it:
        lease = await it.lease("a")
        child = int(Path(f"{it.events_file}.child").read_text())
        os.kill(it.events("start")[0]["pid"], signal.SIGKILL)
        await it.until(lambda found: found["recipe"] is None)

        assert proc.process(child) is None
        assert (await it.end(lease))["ended"] == "engine_died"
        assert (await it.lease("b"))["recipe"] == "b"


@pytest.mark.parametrize("phase", ["starting", "ready", "draining", "stopping"])
async def test_an_engine_killed_in_any_phase_leaves_a_slot_that_works(
    tmp_path: Path, phase: str
) -> None:
    one = Engine(load_s=0.3, ignores_term=phase == "stopping", file={"stop_grace_s": 1.0})
    async with plane(tmp_path, a=one, b=Engine()) as it:
        asking = asyncio.create_task(it.ask("a"))
        if phase == "starting":
            await it.phase(phase)
            await it.until(lambda _: bool(it.events("start")))
        else:
            lease = (await asking).json()
            if phase == "stopping":
                await it.end(lease)
            if phase != "ready":
                assert (await it.switch("b", confirm=True)).status_code == 202
            await it.phase(phase)
        os.kill(it.events("start")[0]["pid"], signal.SIGKILL)

        assert (await it.lease("b"))["recipe"] == "b"
        assert len(it.alive()) == 1
        await asking


async def test_the_log_of_an_engine_that_died_is_kept(tmp_path: Path) -> None:
    async with plane(tmp_path, a=Engine(says="marked"), b=Engine()) as it:
        await it.end(await it.lease("a"))
        await it.lease("b")
        logs = sorted((it.run / "logs").glob("a-*.log"))
        answer = await it.client.get("/api/slot/logs", params={"recipe": "a"})

        assert len(logs) == 1
        assert "marked" in logs[0].read_text()
        assert answer.json()["file"] == logs[0].name
        assert answer.json()["lines"] == ["a-model starts marked"]
        now = (await it.client.get("/api/slot/logs")).json()
        assert now["lines"] == ["b-model starts "]


@pytest.mark.parametrize("acts", [True, False])
async def test_low_memory_stops_an_engine_only_where_its_recipe_says_so(
    tmp_path: Path, acts: bool
) -> None:
    machine = tmp_path / "proc"
    machine.mkdir()
    meminfo = machine / "meminfo"
    meminfo.write_text("MemTotal: 8388608 kB\nMemAvailable: 6291456 kB\n")
    slot = {"host": {"proc": str(machine)}, "memory": {"low_gib": 2.0, "every_s": 0.05}}
    one = Engine(file={"on_low_memory": "stop" if acts else "report"})
    async with plane(tmp_path, slot=slot, a=one) as it:
        lease = await it.lease("a")
        before = (await it.status())["memory"]
        meminfo.write_text("MemTotal: 8388608 kB\nMemAvailable: 1048576 kB\n")
        after = await it.until(lambda found: found["memory"]["verdict"] == "low")

        assert (before["verdict"], before["available_gib"]) == ("well", 6.0)
        assert after["memory"]["available_gib"] == 1.0
        if acts:
            found = await it.until(lambda found: found["recipe"] is None)
            assert "memory is low (1.0 GiB available)" in found["failures"]["a"]["reason"]
            assert (await it.end(lease))["ended"] == "engine_died"
            assert list((it.run / "logs").glob("a-*.log"))
        else:
            assert after["phase"] == "ready"
