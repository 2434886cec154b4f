"""`serving stacks check` as a person runs it: variables, exit codes, data."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from serving.cli import main

STACK = """services:
  engine:
    image: ghcr.io/ggml-org/llama.cpp:${TAG:-server}
    restart: unless-stopped
    stop_grace_period: 60s
    ports: ["${LAN_IP}:8080:8080"]
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("LAN_IP", raising=False)
    monkeypatch.delenv("TAG", raising=False)
    (tmp_path / "stack.yaml").write_text(STACK)
    return tmp_path


def test_problems_have_a_place_and_the_exit_code_says_so(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = main(["stacks", "check", "stack.yaml"])

    out = capsys.readouterr().out.splitlines()
    assert code == 1
    assert [line.split(": ")[:2] for line in out[:3]] == [
        ["stack.yaml:3:5", "error[image-tag]"],
        ["stack.yaml:6:13", "error[public-port]"],
        ["stack.yaml:6:13", "warning[unset-variable]"],
    ]
    assert out[3] == "1 file: 2 errors and 1 warning"


@pytest.mark.parametrize("name", ["stack.env", ".env", "stack.env.example", ".env.example"])
def test_variables_come_from_the_env_file_beside_it_or_its_template(
    name: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / name).write_text("LAN_IP=192.0.2.10\nexport TAG='server-b7000'  \n# a comment\n")

    assert main(["stacks", "check", "stack.yaml"]) == 0
    assert capsys.readouterr().out == "1 file: no errors\n"


def test_a_named_env_file_is_the_only_one_and_the_shell_wins(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "stack.env").write_text("LAN_IP=0.0.0.0\nTAG=latest\n")
    (folder / "other.env").write_text("LAN_IP=0.0.0.0\nTAG=server-b7000\n")
    monkeypatch.setenv("LAN_IP", "192.0.2.10")

    assert main(["stacks", "check", "stack.yaml", "--env-file", "other.env"]) == 0


def test_the_same_as_data(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["stacks", "check", "stack.yaml", "--json"])

    data = json.loads(capsys.readouterr().out)
    assert code == 1
    assert (data["ok"], data["errors"], data["warnings"]) == (False, 2, 1)
    assert data["problems"][0]["code"] == "image-tag"
    assert data["problems"][0]["line"] == 3


def test_production_asks_for_digests(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["stacks", "check", "stack.yaml", "--production"])

    assert "error[image-digest]" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--env-file", "none.env"], "cannot read the env file none.env"),
        (["--routing", "none.yaml"], "there is no file none.yaml"),
    ],
)
def test_a_file_that_is_not_there_is_one_line(
    arguments: list[str], said: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = main(["stacks", "check", "stack.yaml", *arguments])

    assert code == 1
    assert said in capsys.readouterr().err


def test_a_compose_file_that_cannot_be_read_is_a_problem(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["stacks", "check", "none.yaml"]) == 1
    assert "none.yaml:1:1: error[unreadable]" in capsys.readouterr().out


def test_without_files_there_must_be_a_folder_of_them(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["stacks", "check"]) == 1
    assert "name the files" in capsys.readouterr().err


def test_wrong_arguments_end_with_2() -> None:
    with pytest.raises(SystemExit) as end:
        main(["stacks", "chekc"])

    assert end.value.code == 2
