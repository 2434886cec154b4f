"""The systemd units: commands that the programs know, limits above the drains, who is killed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from gateway import cli as gateway
from serving import cli as serving
from serving.embeddings.models import QWEN3
from serving.stacks.compose import env_file
from tests.ground.repository import ROOT
from tests.units.reading import (
    FILES,
    PROGRAMS,
    UNITS,
    one,
    read,
    seconds,
    service,
    variables,
    words,
)

LANE = yaml.safe_load((ROOT / "compose/embeddings.yaml").read_text())["services"]["query"]


def test_there_is_a_unit_for_each_process_that_always_runs() -> None:
    names = [file.stem for file in FILES]

    assert names == ["signalbox-embeddings", "signalbox-gateway", "signalbox-slot"]


@pytest.mark.parametrize("name", ["gateway", "embeddings", "slot"])
def test_the_command_is_one_that_the_program_knows(name: str) -> None:
    path, *arguments = words(service(name))
    assert path.startswith(PROGRAMS)

    if path == f"{PROGRAMS}gateway":
        args = gateway._parser().parse_args(arguments)
    else:
        args = serving._parser(arguments[0]).parse_args(arguments)

    assert "serve" in vars(args).values()


def test_a_reload_checks_the_file_before_the_signal() -> None:
    check, signal = service("gateway")["ExecReload"]

    path, *arguments = words({**service("gateway"), "ExecReload": [check]}, "ExecReload")
    assert path == f"{PROGRAMS}gateway"
    assert gateway._parser().parse_args(arguments).command == "check"
    assert signal == "/bin/kill -HUP $MAINPID"


def test_a_stop_waits_longer_than_the_gateway_drains() -> None:
    [drain_s] = re.findall(r"drain_s: (\d+) ", (ROOT / "config.example.yaml").read_text())

    assert seconds(one(service("gateway"), "TimeoutStopSec")) >= float(drain_s) + 20


def test_a_stop_waits_longer_than_the_lane_drains() -> None:
    settings = service("embeddings")
    command = words(settings)

    drain_s = float(command[command.index("--drain-s") + 1])
    assert seconds(one(settings, "TimeoutStopSec")) >= drain_s + 20


def test_a_stop_waits_longer_than_a_swap_may_take_to_end_streams_and_an_engine() -> None:
    rules = yaml.safe_load((ROOT / "serving/slot/slot.example.yaml").read_text())["rules"]

    longest_s = rules["drain_s"] + rules["stop_grace_s"]
    assert seconds(one(service("slot"), "TimeoutStopSec")) >= longest_s + 20


def test_the_signal_reaches_the_control_plane_and_no_engine() -> None:
    settings = service("slot")

    assert one(settings, "KillMode") == "process"
    assert one(settings, "OOMPolicy") == "continue"
    assert "PrivateTmp" not in settings  # another one after each restart, and engines keep the old
    assert "PrivateDevices" not in settings
    assert not {key for key in settings if key.startswith(("Memory", "CPU"))}  # engines count too


@pytest.mark.parametrize("name", ["gateway", "embeddings"])
def test_what_else_is_in_the_group_ends_after_the_process_that_drains(name: str) -> None:
    assert one(service(name), "KillMode") == "mixed"


@pytest.mark.parametrize("file", FILES, ids=lambda f: f.stem)
def test_a_unit_comes_back_after_a_crash_and_gains_no_rights(file: Path) -> None:
    unit = read(file)
    settings = unit["Service"]

    assert one(settings, "Type") == "exec"
    assert one(settings, "Restart") == "on-failure"
    assert unit["Unit"]["StartLimitIntervalSec"] == ["0"]
    assert one(settings, "NoNewPrivileges") == "yes"
    assert one(settings, "ProtectSystem") in ("strict", "full")
    assert one(settings, "User").startswith("signalbox")
    assert unit["Install"] == {"WantedBy": ["multi-user.target"]}


def test_the_network_side_is_not_the_user_that_reaches_docker() -> None:
    assert one(service("gateway"), "User") != one(service("slot"), "User")
    assert "SupplementaryGroups" not in service("gateway")
    assert "docker" in one(service("slot"), "SupplementaryGroups")


def test_the_lane_has_the_limits_and_the_name_of_its_container() -> None:
    settings = service("embeddings")
    command = words(settings)

    assert one(settings, "CPUQuota") == f"{LANE['cpus']}00%"
    assert one(settings, "MemoryMax").lower() == LANE["mem_limit"]
    assert one(settings, "MemorySwapMax") == "0"
    given = dict(zip(command, command[1:], strict=False))
    theirs = dict(word.split("=", 1) for word in LANE["command"] if word.startswith("--"))
    for flag in ("--served-name", "--port", "--threads", "--max-tokens", "--drain-s"):
        assert given[flag] == theirs[flag], flag
    assert int(given["--max-tokens"]) == QWEN3.max_tokens


def test_the_example_names_every_variable_of_a_command_with_its_default() -> None:
    example = env_file(str(UNITS / "units.env.example"))

    used: set[str] = set()
    for file in FILES:
        settings = read(file)["Service"]
        assert "-/etc/signalbox/units.env" in settings["EnvironmentFile"]
        named = set(re.findall(r"\$\{(\w+)\}", file.read_text()))
        assert {name: variables(settings)[name] for name in named}.items() <= example.items()
        used |= named
    assert used == set(example)


def test_every_user_of_a_unit_is_made_with_its_folder() -> None:
    made = dict(
        re.findall(
            r'^u (\S+) +- "[^"]+" +(\S+)$', (UNITS / "signalbox.sysusers").read_text(), re.MULTILINE
        )
    )

    for file in FILES:
        settings = read(file)["Service"]
        assert one(settings, "User") in made
        for folder in settings.get("StateDirectory", []):
            assert made[one(settings, "User")] == f"/var/lib/{folder}"


def test_the_page_names_every_file_and_no_other() -> None:
    page = (ROOT / "docs/units.md").read_text()

    named = set(re.findall(r"signalbox[\w-]*\.(?:service|sysusers)", page))
    assert {f"{file.name}" for file in FILES} <= named
    assert not [name for name in named if not (UNITS / name).exists()]
