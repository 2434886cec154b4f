"""The locks match pyproject.toml, and each line of them can be checked."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from tests.ground import repository
from tests.ground.repository import ROOT

PIN = re.compile(r"^(?P<name>[a-z0-9][a-z0-9.-]*)==(?P<version>\S+?)(?:\s*;[^\\]*)?\s*\\$")
HASH = re.compile(r"^    --hash=sha256:[0-9a-f]{64}(?: \\)?$")
LOCKS = sorted((ROOT / "requirements").glob("*.txt"))


@pytest.fixture(scope="module")
def project() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())


def pins(lock: Path) -> dict[str, str]:
    """Package -> version of every pin in a lock."""
    found = [PIN.match(line) for line in lock.read_text().splitlines() if not line.startswith(" ")]
    return {match["name"]: match["version"] for match in found if match}


def versions(lock: Path) -> dict[str, set[str]]:
    """Package -> versions: a lock for every Python may have one for each of several."""
    found: dict[str, set[str]] = {}
    for line in lock.read_text().splitlines():
        if not line.startswith(" ") and (match := PIN.match(line)):
            found.setdefault(match["name"], set()).add(match["version"])
    return found


def names(requirements: list[str]) -> set[str]:
    """The packages that a list in pyproject.toml asks for, normalised as locks spell them."""
    split = (re.split(r"[<>=!~;\[ ]", each, maxsplit=1)[0] for each in requirements)
    return {re.sub(r"[-_.]+", "-", each).lower() for each in split}


def test_there_are_seven_locks() -> None:
    names = ["build", "dev", "embed", "embed-torch", "local", "runtime", "stock"]
    assert sorted(lock.stem for lock in LOCKS) == names


@pytest.mark.parametrize("lock", LOCKS, ids=lambda lock: lock.name)
def test_every_line_of_a_lock_is_an_exact_pin_or_a_hash(lock: Path) -> None:
    lines = lock.read_text().splitlines()
    hashed = True
    for line in lines:
        if line.startswith(" "):
            assert HASH.match(line), line
            hashed = True
        else:
            assert hashed, f"the pin before `{line}` has no hash"
            assert PIN.match(line), line
            hashed = False
    assert hashed


@pytest.mark.parametrize("lock", LOCKS, ids=lambda lock: lock.name)
def test_a_lock_names_no_address_and_no_pre_release(lock: Path) -> None:
    assert "://" not in lock.read_text()
    assert not [v for v in pins(lock).values() if re.search(r"\d(a|b|rc|\.dev)\d", v)]


def test_every_direct_dependency_is_locked(project: dict[str, Any]) -> None:
    extras = project["project"]["optional-dependencies"]
    runtime = names(project["project"]["dependencies"])

    assert runtime <= set(pins(ROOT / "requirements/runtime.txt"))
    assert runtime | names(extras["local"]) <= set(pins(ROOT / "requirements/local.txt"))
    assert runtime | names(extras["embed"]) <= set(pins(ROOT / "requirements/embed.txt"))
    assert runtime | names(extras["embed-torch"]) <= set(
        pins(ROOT / "requirements/embed-torch.txt")
    )
    whole = runtime | names(extras["local"]) | names(extras["embed"]) | names(extras["dev"])
    assert whole <= set(pins(ROOT / "requirements/dev.txt"))
    build = project["build-system"]["requires"] + project["dependency-groups"]["build"]
    assert names(build) <= set(pins(ROOT / "requirements/build.txt"))


def test_the_locks_agree_with_each_other() -> None:
    whole = versions(ROOT / "requirements/dev.txt")

    for lock in LOCKS:
        if lock.name == "stock.txt":
            continue  # a venv of its own, which wants an older websockets
        for package, found in versions(lock).items():
            assert found <= whole.get(package, found), (lock.name, package)


def test_the_stock_proxy_is_the_release_whose_grammar_is_read(project: dict[str, Any]) -> None:
    locked = pins(ROOT / "requirements/stock.txt")

    assert f"litellm=={locked['litellm']}" in project["project"]["dependencies"]
    assert not [name for name in locked if "enterprise" in name]


def test_the_lane_of_a_real_node_is_locked_without_gpus_at_what_the_tests_hold_it_against(
    project: dict[str, Any],
) -> None:
    locked = pins(ROOT / "requirements/embed-torch.txt")
    groups = project["dependency-groups"]

    proof = dict(each.split("==") for each in groups["embed-proof"] if "==" in each)
    for package, version in (each.split("==") for each in groups["embed-lane"]):
        assert locked[package] == version
        assert proof[package] == version.removesuffix("+cpu")
    assert locked["torch"].endswith("+cpu")
    assert not [name for name in locked if name.startswith(("nvidia-", "triton", "cuda-"))]


def test_exact_pins_of_the_project_are_the_locked_ones(project: dict[str, Any]) -> None:
    locked = pins(ROOT / "requirements/dev.txt")
    exact = [each for each in project["project"]["optional-dependencies"]["local"] if "==" in each]

    assert exact
    for each in exact:
        package, version = each.split("==")
        assert locked[package] == version


# How code names a package, where that is not the package's own name.
IMPORTED_AS = {"pyyaml": "yaml", "prometheus-client": "prometheus_client"}


def test_every_runtime_dependency_is_in_use(project: dict[str, Any]) -> None:
    code = "\n".join(path.read_text() for path in repository.code())
    wanted = names(project["project"]["dependencies"])

    unused = [each for each in wanted if not re.search(rf"\b{IMPORTED_AS.get(each, each)}\b", code)]

    assert not unused


def test_every_dependency_has_its_reason_beside_it() -> None:
    text = (ROOT / "pyproject.toml").read_text()
    block = text.split("\ndependencies = [")[1].split("\n]")[0]

    assert all("# " in line for line in block.strip().splitlines())  # beside it, or above


def test_the_bridged_release_is_named_exactly(project: dict[str, Any]) -> None:
    [named] = [d for d in project["project"]["dependencies"] if d.startswith("litellm")]

    assert re.fullmatch(r"litellm==\d+\.\d+\.\d+", named)
