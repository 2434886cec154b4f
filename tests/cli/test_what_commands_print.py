"""Golden files: what each command prints of the reference node where it is not a terminal."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.cli.conftest import Gateway
from tests.commands import Golden

ENV = ("--env-file", "node.env")
REVISION = re.compile(r"[0-9a-f]{12}")


def test_routes(gateway: Gateway, golden: Golden) -> None:
    ran = gateway("routes", *ENV)

    assert (ran.code, ran.err) == (0, "")
    golden("routes.txt", ran.out)


def test_routes_as_data(gateway: Gateway, golden: Golden) -> None:
    ran = gateway("routes", *ENV, "--json")

    assert ran.code == 0
    golden("routes.json", REVISION.sub("REVISION", ran.out))
    assert "secret" not in ran.out


@pytest.mark.parametrize(
    ("name", "args"),
    [
        ("task", ("--task", "title")),
        ("task-without-fallbacks", ("--task", "review")),
        ("alias", ("--model", "fast-chat")),
        ("fallbacks", ("--model", "background-llm")),
        ("too-long", ("--model", "aux-35b", "--prompt-tokens", "200000")),
        ("dialect", ("--model", "primary-chat", "--dialect", "embeddings")),
    ],
)
def test_explain(gateway: Gateway, golden: Golden, name: str, args: tuple[str, ...]) -> None:
    ran = gateway("explain", *ENV, *args)

    assert ran.err == ""
    golden(f"explain-{name}.txt", ran.out)


def test_explain_as_data(gateway: Gateway, golden: Golden) -> None:
    ran = gateway("explain", *ENV, "--model", "background-llm", "--json")

    assert ran.code == 0
    golden("explain.json", REVISION.sub("REVISION", ran.out))


def test_check(gateway: Gateway, golden: Golden) -> None:
    ran = gateway("check", "config.yaml", *ENV)

    assert ran.code == 0
    golden("check.txt", ran.out)


def test_diff(gateway: Gateway, golden: Golden, node: Path) -> None:
    text = (node / "config.yaml").read_text()
    edits = {
        "rpm: 4": "rpm: 40",
        "title: aux-35b": "title: background-llm",
        "- background-llm: [burst-nemotron]": "- aux-35b: [burst-nemotron]",
        "timeout: 1200": "timeout: 900",
        "models: [title]": "models: []",
        "task_pins:": "listen: 127.0.0.1:9100\n  task_pins:",
    }
    for before, after in edits.items():
        assert before in text
        text = text.replace(before, after, 1)
    (node / "new.yaml").write_text(text)

    ran = gateway("diff", "config.yaml", "new.yaml", *ENV)

    assert (ran.code, ran.err) == (0, "")
    golden("diff.txt", ran.out)


def test_a_terminal_gets_a_table_whose_repeated_names_are_blank(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    monkeypatch.setenv("COLUMNS", "160")

    ran = gateway("routes", *ENV)

    assert ran.code == 0
    assert ran.out.count("background-llm") < 4, "told once in the table, once in the sum"
    assert "bounded overflow: rpm 4, 1 parallel" in ran.out


def test_json_of_check_has_every_problem_with_its_place(gateway: Gateway, node: Path) -> None:
    text = (node / "config.yaml").read_text()
    (node / "config.yaml").write_text(
        text.replace("rpm: 4\n", "\n").replace("rpm: 8\n", "rmp: 8\n")
    )

    ran = gateway("check", "config.yaml", *ENV, "--json")

    data = json.loads(ran.out)
    found = [p["code"] for p in data["problems"] if p["severity"] == "error"]
    assert (ran.code, data["ok"], data["errors"], len(found)) == (1, False, 2, 2)
    assert "unbounded-overflow" in found
    assert all(p["file"] == "config.yaml" and p["line"] > 1 for p in data["problems"])
