"""The file of docs/slots-in-the-file.md, and what the commands print of it (golden files)."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from common.problems import render
from gateway.api.models import listed
from gateway.cli import main
from gateway.config.config import Config
from gateway.config.load import load_text
from gateway.keys import KeyRing
from gateway.routing.table import build
from gateway.slots.said import WORDS

PAGE = (Path(__file__).parents[2] / "docs" / "slots-in-the-file.md").read_text()
GOLDEN = Path(__file__).parent / "golden"
ENVIRON = {
    "GATEWAY_MASTER_KEY": "sk-master-0123456789abcdef",
    "SLOT_KEY": "sk-slot-0123456789abcdef",
    "NEBIUS_API_KEY": "sk-nebius-0123456789abcdef",
}


def shown() -> str:
    blocks: list[str] = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
    assert len(blocks) == 1
    return blocks[0]


def loaded() -> Config:
    found = load_text(shown().encode(), "config.yaml", ENVIRON)
    assert found.config is not None, render(found.problems)
    assert {p.code for p in found.problems} == {"shared-upstream"}
    return found.config


@pytest.mark.parametrize(
    ("name", "args"),
    [
        ("aliases.txt", ("aliases",)),
        ("aliases.json", ("aliases", "--json")),
        ("routes.txt", ("routes",)),
        ("routes.json", ("routes", "--json")),
        ("explain-swaps.txt", ("explain", "--model", "qwen3-coder")),
        ("explain-active.txt", ("explain", "--task", "title")),
        ("explain.json", ("explain", "--model", "qwen3-coder", "--json")),
        ("diff.txt", ("diff", "old.yaml")),
        ("render-stock.yaml", ("render", "config.yaml", "--stock")),
    ],
)
def test_the_commands_show_slots(
    name: str,
    args: tuple[str, ...],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    edits = {
        "glm-4.5-air": "glm-4.6",
        "max_hold_s: 300 ": "max_hold_s: 60 ",
        "fast, en": "think, en",
    }
    old = shown()
    for after, before in edits.items():
        assert after in old
        old = old.replace(after, before, 1)
    (tmp_path / "config.yaml").write_text(shown())
    (tmp_path / "old.yaml").write_text(old)
    monkeypatch.chdir(tmp_path)
    for variable, value in ENVIRON.items():
        monkeypatch.setenv(variable, value)

    code = main(args)

    out = re.sub(r"\b[0-9a-f]{12}\b", "REVISION", capsys.readouterr().out)
    if os.environ.get("WRITE_GOLDEN"):
        (GOLDEN / name).write_text(out)
    assert code == 0
    assert out == (GOLDEN / name).read_text()
    assert not any(value in out for value in ENVIRON.values())


def test_the_list_of_models_shows_slots_with_what_the_file_knows() -> None:
    config = loaded()
    table = build(config)
    client = KeyRing(config, table).who(None, ENVIRON["GATEWAY_MASTER_KEY"].encode())

    rows = {m.id: m.openai(0) for m in listed(table, client)}

    assert rows["qwen3-coder"]["slots"] == [{"slot": "gpu0", "recipe": "qwen3-coder-next"}]
    assert rows["sparky-think"]["slots"] == [
        {"slot": "gpu0", "recipe": "active", "variant": "think"}
    ]


def test_the_page_has_every_code_and_no_other() -> None:
    told = set(re.findall(r"`slot_([a-z_]+)`", PAGE))

    assert told == set(WORDS)
