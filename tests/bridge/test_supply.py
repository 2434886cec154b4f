"""What came in with the library: nothing that runs by itself, nothing that calls anybody."""

from __future__ import annotations

import asyncio
import json
import os
import re
import sys
from importlib.metadata import distributions
from pathlib import Path

import pytest

from gateway import bridge
from gateway.bridge.child import surroundings
from tests.engine import FakeEngine
from tests.ground.repository import ROOT

LOCKS = sorted((ROOT / "requirements").glob("*.txt"))
# Files that Python runs at every start, whoever starts it.
_RUNS_BY_ITSELF = re.compile(r"(^|/)(sitecustomize|usercustomize|cook)\.py$|\.pth$")


def locked(lock: Path) -> dict[str, str]:
    found = re.findall(r"^([a-z0-9][a-z0-9.-]*)==(\S+)", lock.read_text(), re.MULTILINE)
    return dict(found)


def test_no_package_of_the_lock_brought_a_file_that_runs_by_itself() -> None:
    """The stealers of 2026 came as a .pth and as sitecustomize.py."""
    names = set(locked(ROOT / "requirements/runtime.txt"))
    packages = [d for d in distributions() if _normal(d.metadata["Name"]) in names]

    found = {
        f"{d.metadata['Name']}: {file}"
        for d in packages
        for file in d.files or ()
        if _RUNS_BY_ITSELF.search(str(file))
    }

    assert {"litellm", "openai", "boto3"} <= {_normal(d.metadata["Name"]) for d in packages}
    assert not found


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


@pytest.mark.parametrize("lock", LOCKS, ids=lambda lock: lock.name)
def test_no_lock_has_a_release_that_stole(lock: Path) -> None:
    pins = locked(lock)

    assert pins.get("litellm") not in bridge.BAD_RELEASES
    assert not [v for v in pins.values() if re.search(r"\d(a|b|rc|\.dev)\d", v)]
    assert "litellm-enterprise" not in pins


@pytest.mark.parametrize("name", ["1.82.7", "1.82.8", "1.107.0", "1.107.0rc1", "1.108.0.dev1", ""])
def test_a_bad_release_is_refused_by_name(name: str) -> None:
    """It is never imported: its version is read from beside it."""
    assert bridge.is_bad(name)


def test_the_pinned_release_is_the_one_that_runs() -> None:
    assert bridge.release() == locked(ROOT / "requirements/runtime.txt")["litellm"]
    assert bridge.is_there()


async def test_start_and_a_bridged_call_look_up_no_host_that_the_file_does_not_name() -> None:
    """Every name look-up and connect of the bridge's process, on a loop that Python can watch."""
    async with FakeEngine("e") as engine:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "tests.bridge.watched",
            engine.url,
            env=surroundings(os.environ),
            stdout=asyncio.subprocess.PIPE,
        )
        said, _ = await process.communicate()
    seen = json.loads(said.splitlines()[-1])

    assert seen["outcomes"] == [200] * len(seen["outcomes"])
    assert len(seen["outcomes"]) >= 6
    assert {tuple(place) for place in seen["places"]} == {("127.0.0.1", engine.port)}
    assert {call.path.rpartition("/")[2] for call in engine.requests} >= {
        "completions",
        "messages",
        "embeddings",
    }
