"""The slot file: every problem at once, with its place; nothing open without a key."""

from __future__ import annotations

from pathlib import Path

import pytest

from common.problems import render
from serving.recipes.load import FOLDER, load_folder
from serving.slot import settings
from serving.slot.serve import unnamed
from serving.slot.settings import Settings
from tests.ground.repository import ROOT


def read(folder: Path, text: str, **environ: str) -> settings.Loaded:
    file = folder / "slot.yaml"
    file.write_text(text)
    return settings.load(str(file), environ)


def good(loaded: settings.Loaded) -> Settings:
    assert loaded.settings is not None, render(loaded.problems)
    return loaded.settings


def test_the_example_can_be_served() -> None:
    loaded = good(settings.load(str(ROOT / "serving/slot/slot.example.yaml"), {}))

    assert (loaded.slot, loaded.address, loaded.port) == ("gpu0", "127.0.0.1", 8767)
    assert loaded.rules.max_wait_s == 600


def test_a_slot_needs_its_name_alone(tmp_path: Path) -> None:
    loaded = good(read(tmp_path, "slot: gpu0\n"))

    assert loaded.loopback
    assert loaded.url == "http://127.0.0.1:8767"
    assert loaded.enabled is None


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("slot: gpu0\nrecipe: x\n", "2:1: error[unknown-key]: `recipe` is no setting (did you"),
        ("slot: gpu0\nrules: {drains_s: 1}\n", "2:9: error[unknown-key]: `drains_s` is no setting"),
        ("listen: 127.0.0.1:1\n", "1:1: error[missing-key]: `slot` must be there"),
        ("slot: gpu0\nrun: 3\n", "2:1: error[value]: `run` must be text, not 3"),
        ("slot: GPU 0\n", "1:1: error[value]: `slot` must be small letters"),
        ("slot: g\nrules: {lease_s: 0}\n", "2:9: error[value]: `lease_s` must be a number above"),
        ("slot: g\nlisten: localhost:1\n", "2:1: error[listen]: `localhost:1` is no IP:PORT"),
        ("slot: g\nlisten: 127.0.0.1:0\n", "2:1: error[listen]: `127.0.0.1:0` is no IP:PORT"),
        ("slot: g\nlisten: 0.0.0.0:1\n", "2:1: error[open-without-key]: `0.0.0.0:1` can be"),
        ("slot: g\nlisten: '[::]:1'\n", "2:1: error[open-without-key]: `[::]:1` can be reached"),
        ("slot: g\nkey: secret\n", "2:1: error[key-in-file]: a key does not stand in a file"),
        ("slot: g\nkey: os.environ/NONE\n", "2:1: error[unset-variable]: the variable NONE is not"),
        ("", "1:1: error[empty-file]"),
    ],
)
def test_a_problem_has_its_place(tmp_path: Path, text: str, problem: str) -> None:
    loaded = read(tmp_path, text)

    assert loaded.settings is None
    assert f"slot.yaml:{problem}" in render(loaded.problems)


def test_with_a_key_it_may_listen_anywhere(tmp_path: Path) -> None:
    text = "slot: g\nlisten: 0.0.0.0:8767\nkey: os.environ/SLOT_KEY\n"

    loaded = good(read(tmp_path, text, SLOT_KEY="s"))

    assert not loaded.loopback
    assert loaded.key == "s"
    assert "s" not in repr(loaded).replace("slot", "").split("key=")[0].split("'")


def test_this_machines_graces_win_over_the_recipes(tmp_path: Path) -> None:
    loaded = good(read(tmp_path, "slot: g\nrules: {stop_graces_s: {a: 5}}\n"))

    assert loaded.rules.of_slot({"a": 60.0, "b": 30.0}).stop_graces_s == {"a": 5.0, "b": 30.0}


def test_a_variable_that_no_recipe_names_is_told() -> None:
    """It would reach no engine, and nobody would know."""
    recipes = load_folder(FOLDER).recipes.values()

    assert unnamed(["HF_TOKEN", "HF_HUB_OFLINE", "ENGINE_KEY"], recipes) == ["HF_HUB_OFLINE"]
