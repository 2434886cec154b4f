"""The commands against a real control plane, and what they print."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from serving import cli
from tests.ground.repository import ROOT
from tests.slot.acts.plane import Engine, Plane, plane


async def command(it: Plane, *arguments: str) -> tuple[int, str, str]:
    """Exit code, output, errors of `serving slot ...`."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "serving.cli", "slot", *arguments),
        env={**os.environ, "SLOT_URL": str(it.client.base_url), "COLUMNS": "120"},
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    out, errors = await process.communicate()
    return process.returncode or 0, out.decode(), errors.decode()


async def test_up_waits_until_it_serves_and_status_tells_it(tmp_path: Path) -> None:
    async with plane(tmp_path, a=Engine(load_s=0.2)) as it:
        up, _, said = await command(it, "up", "a")
        shown = (command(it, *words) for words in (["status"], ["status", "--json"], ["list"]))
        (code, text, _), (_, data_text, _), (_, listed, _) = await asyncio.gather(*shown)
        data = json.loads(data_text)

        assert up == 0
        assert f"a serves a-model on http://127.0.0.1:{it.engine_port}/v1" in said
        assert code == 0
        assert [line.split()[:2] for line in text.splitlines()[:4]] == [
            ["slot", "gpu0"],
            ["phase", "ready"],
            ["recipe", "a"],
            ["running", "0"],
        ]
        assert (data["phase"], data["recipe"]) == ("ready", "a")
        assert [line.split()[:3] for line in listed.splitlines()[1:2]] == [["*", "a", "llamacpp"]]


async def test_what_an_engine_says_in_brackets_is_no_markup(tmp_path: Path) -> None:
    broken = Engine(dies_after_s=0.05, load_s=1, says="[/red] [Errno 12] no memory")
    async with plane(tmp_path, a=broken) as it:
        code, _, said = await command(it, "up", "a")

        assert code == 1
        assert "[/red] [Errno 12] no memory" in said


async def test_up_tells_why_it_failed_with_the_log(tmp_path: Path) -> None:
    broken = Engine(dies_after_s=0.05, load_s=1, says="api_key=hunter2")
    async with plane(tmp_path, a=broken) as it:
        code, _, said = await command(it, "up", "a")

        assert code == 1
        assert "a failed: it ended before it served: it ended with code 3" in said
        assert "a-model starts api_key=[hidden]" in said


async def test_what_the_control_plane_refuses_is_told(tmp_path: Path) -> None:
    async with plane(tmp_path, a=Engine(), b=Engine()) as it:
        await it.lease("a")
        busy = await command(it, "switch", "b")
        unknown = await command(it, "up", "c")

        assert busy[0] == 1
        assert "serving: 1 requests run on a: confirm to swap it out" in busy[2]
        assert unknown[0] == 1
        assert "there is no recipe 'c'" in unknown[2]


async def test_bench_logs_and_down_do_what_they_say(tmp_path: Path) -> None:
    async with plane(tmp_path, a=Engine()) as it:
        await it.end(await it.lease("a"))
        bench = await command(it, "bench")
        log = await command(it, "logs", "-n", "5")
        down = await command(it, "down")

        assert bench[0] == 0
        assert bench[1].startswith("a: first token after ")
        assert log[1] == "a-model starts \n"
        assert down[:2] in ((0, "slot: stopping\n"), (0, "slot: stopped\n"))


async def test_logs_follow_what_comes(tmp_path: Path) -> None:
    async with plane(tmp_path, a=Engine()) as it:
        await it.lease("a")
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "serving.cli", "slot", "logs", "-f"),
            env={**os.environ, "SLOT_URL": str(it.client.base_url)},
            cwd=ROOT,
            stdout=subprocess.PIPE,
        )
        assert process.stdout is not None
        first = await process.stdout.readline()
        [path] = (it.run / "logs").glob("a-*.log")
        with path.open("a") as log:
            log.write("later\n")
        second = await process.stdout.readline()
        process.send_signal(signal.SIGINT)

        assert (first, second) == (b"a-model starts \n", b"later\n")
        assert await process.wait() == 130


async def test_a_dry_run_prints_the_command_and_runs_nothing(tmp_path: Path) -> None:
    async with plane(tmp_path, a=Engine()) as it:
        code, out, _ = await command(it, "up", "a", "--dry-run", "--ctx", "77", "-c", str(it.file))

        assert code == 0
        assert "context    77" in out
        assert "--alias a-model" in out
        assert not it.events("start")


def test_without_a_control_plane_the_command_says_how_to_start_one(
    capsys: pytest.CaptureFixture[str],
) -> None:
    code = cli.main(["slot", "status", "--url", "http://127.0.0.1:9"])

    assert code == 1
    assert "`serving slot serve` starts one" in capsys.readouterr().err


def test_a_slot_file_is_checked_with_places(tmp_path: Path) -> None:
    file = tmp_path / "slot.yaml"
    file.write_text("slot: g\nrules: {drains_s: 1}\n")

    assert cli.main(["slot", "check", "-c", str(file)]) == 1
    assert cli.main(["slot", "check", "-c", str(ROOT / "serving/slot/slot.example.yaml")]) == 0


def test_help_is_a_page_that_names_each_command() -> None:
    page = (ROOT / "serving/slot/help.txt").read_text()

    assert cli.main(["slot", "help"]) == 0
    for name in ("status", "list", "up", "switch", "down", "logs", "bench"):
        assert f"serving slot {name}" in page
