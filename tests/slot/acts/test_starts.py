"""Starts that cannot be: what is told, what is tried again, and when."""

from __future__ import annotations

import asyncio
import socket
import stat
import time
from pathlib import Path

import pytest

from serving.slot import proc
from tests.served import free_port
from tests.slot.acts.plane import Engine, plane


async def test_a_start_that_was_too_slow_works_once_its_limit_is_raised(tmp_path: Path) -> None:
    """SWP-07: the second try works without a restart; the recipe file is read again."""
    slow = Engine(load_s=0.6, file={"start_timeout_s": 0.3})
    async with plane(tmp_path, a=slow) as it:
        refused = await it.ask("a")
        failed = (await it.phase("failed"))["failures"]["a"]
        it.write("a", Engine(load_s=0.6))
        await it.until(lambda found: found["failures"]["a"]["retry_in_s"] == 0)

        assert refused.status_code == 503
        assert refused.json()["error"]["code"] == "failed"
        assert failed["reason"] == "it was not ready within 0.3 s"
        assert failed["retry_in_s"] > 0
        assert (await it.lease("a"))["recipe"] == "a"


async def test_a_page_on_every_path_is_no_engine(tmp_path: Path) -> None:
    """SWP-11."""
    async with plane(tmp_path, a=Engine(html=True, file={"start_timeout_s": 0.5})) as it:
        asking = asyncio.create_task(it.ask("a"))
        seen = await it.until(lambda found: "text/html" in str(found["progress"]))

        assert seen["phase"] == "starting"
        assert (await asking).json()["error"]["code"] == "failed"
        assert (await it.status())["phase"] != "ready"


async def test_an_engine_on_another_port_than_the_probed_one_fails_in_time_and_is_stopped(
    tmp_path: Path,
) -> None:
    """CFG-10: `serving recipe check` names both ports; without it the start ends so."""
    lost = Engine(listens=free_port(), file={"start_timeout_s": 0.5})
    async with plane(tmp_path, a=lost) as it:
        refused = await it.ask("a")
        failed = (await it.phase("failed"))["failures"]["a"]

        assert refused.json()["error"]["code"] == "failed"
        assert failed["reason"] == "it was not ready within 0.5 s"
        assert it.alive() == []


async def test_an_engine_that_serves_another_model_is_not_ready(tmp_path: Path) -> None:
    async with plane(tmp_path, a=Engine(serves="b-model")) as it:
        refused = await it.ask("a")

        assert refused.json()["error"]["code"] == "failed"
        assert "serves b-model, not a-model" in refused.json()["error"]["message"]


async def test_what_holds_the_port_is_named(tmp_path: Path) -> None:
    async with plane(tmp_path, a=Engine()) as it:
        with socket.create_server(("127.0.0.1", it.engine_port)):
            refused = await it.ask("a")
            assert not it.events("start")

        said = refused.json()["error"]["message"]
        assert f"port {it.engine_port} is held by " in said
        assert "(process " in said


async def test_an_engine_that_always_dies_is_started_less_and_less_often(tmp_path: Path) -> None:
    """SWP-18."""
    broken = Engine(dies_after_s=0.05, load_s=1, says="token=abcdef")
    async with plane(tmp_path, a=broken, b=Engine()) as it:
        ends = time.monotonic() + 2.0
        answers = []
        while time.monotonic() < ends:
            answers.append(await it.ask("a"))
            await asyncio.sleep(0.05)
        failure = (await it.status())["failures"]["a"]

        assert {answer.status_code for answer in answers} == {503}
        assert all(int(answer.headers["retry-after"]) >= 1 for answer in answers)
        assert len(answers) > 8
        assert 2 <= len(it.events("start")) <= 3  # after 0, 0.5 and 1.5 s
        assert failure["count"] == len(it.events("start"))
        assert "it ended with code 3" in failure["reason"]
        assert "a-model starts token=[hidden]" in failure["log_tail"]
        assert (await it.lease("b"))["recipe"] == "b"
        assert [row["who"] for row in it.events("start")][-1] == "b-model"


async def test_the_floor_of_memory_is_waited_for_and_then_told(tmp_path: Path) -> None:
    async with plane(tmp_path, a=Engine(file={"min_free_gib": 900_000})) as it:
        refused = await it.ask("a")

        said = refused.json()["error"]["message"]
        assert "GiB are available, and the recipe wants 900000 GiB" in said
        assert not it.events("start")


async def test_what_is_missing_on_this_machine_is_told_before_anything_runs(tmp_path: Path) -> None:
    async with plane(tmp_path, a=Engine(file={"model": "other.gguf"})) as it:
        refused = await it.ask("a")

        assert "the model is not on this machine" in refused.json()["error"]["message"]


@pytest.mark.parametrize("here", [True, False])
async def test_a_start_wants_the_gpus_that_the_slot_file_names(tmp_path: Path, here: bool) -> None:
    """GPU-01."""
    smi = tmp_path / "nvidia-smi"
    smi.write_text(f"#!/bin/sh\necho 'GPU 0: Some (UUID: GPU-{'aa' if here else 'bb'}-1)'\n")
    smi.chmod(smi.stat().st_mode | stat.S_IXUSR)
    slot = {"gpus": ["GPU-aa-1"], "host": {"nvidia_smi": str(smi)}}
    async with plane(tmp_path, slot=slot, a=Engine()) as it:
        answer = await it.ask("a")

        assert answer.status_code == (200 if here else 503)
        if here:
            [pid] = it.alive()
            assert proc.variable(pid, "CUDA_VISIBLE_DEVICES") == "GPU-aa-1"
            assert proc.variable(pid, "CUDA_DEVICE_ORDER") == "PCI_BUS_ID"
        else:
            assert "not on this machine: GPU-aa-1" in answer.json()["error"]["message"]


async def test_a_look_at_gpus_that_nobody_can_take_is_said(tmp_path: Path) -> None:
    slot = {"gpus": ["GPU-aa-1"], "host": {"nvidia_smi": str(tmp_path / "none")}}
    async with plane(tmp_path, slot=slot, a=Engine()) as it:
        await it.lease("a")

        assert (await it.status())["gpus"].startswith("the GPUs are not checked: there is no ")
