"""Bad files of the ledger: every problem at once, each at its place, and nothing is charged."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from common.problems import render
from gateway.config.config import LedgerFiles
from gateway.config.load import load
from gateway.ledger.files import Kept, read
from tests.cli.conftest import Gateway
from tests.commands import Golden
from tests.ground.repository import ROOT
from tests.ledger import box

BAD_PRICES = """\
{
  "glm-5.3": {
    "default": {"in_per_m": NaN, "out_per_m": -1},
    "history": [
      {"from": "2026-02-30", "to": null, "in_per_m": "0.6", "out_per_m": .inf},
      {"to": "2026-01-01", "in_per_m": true, "out_per_m": [1]}
    ],
    "overides": [],
    "overrides": [{"grain": "week", "key": "", "in_per_m": 1}]
  },
  "qwen-35b": []
}
"""
DISAGREE = """\
{
  "glm-5.3": {
    "history": [
      {"from": "2026-01-01", "in_per_m": 1, "out_per_m": 1},
      {"from": "2026-03-01", "to": "2026-02-01", "in_per_m": 1, "out_per_m": 1}
    ],
    "overrides": [
      {"grain": "month", "key": "2026-Q4", "in_per_m": 1, "out_per_m": 1},
      {"grain": "year", "key": "2026", "in_per_m": 1, "out_per_m": 1},
      {"grain": "year", "key": "2026", "in_per_m": 2, "out_per_m": 2}
    ]
  },
  "glm-5.4": {"default": {"in_per_m": 1, "out_per_m": 1}},
  "glm-5.4": {}
}
"""
BAD_PROFILES = """\
profiles:
  - {id: a, name: A, family: f, version: 5.3, params: 1B, provider: p, model: m}
  - {id: b, name: B, family: f, version: "1", params: 1B, provider: p, model: m, in_per_m: 0.5}
  - {id: c, nam: C, family: f, version: "1", params: 1B, provider: p, model: m}
"""
TWICE = box.PROFILES + (
    "  - {id: glm-5.3, name: G, family: g, version: '1', params: 1B, provider: p, model: m}\n"
)
BAD: dict[str, dict[str, str]] = {
    "prices": {"run/prices.json": BAD_PRICES},
    "prices-that-disagree": {"run/prices.json": DISAGREE.replace(',\n  "glm-5.4": {}', "")},
    "prices-twice": {"run/prices.json": DISAGREE},
    "prices-no-json": {"run/prices.json": '{"glm-5.3": '},
    "profiles": {"serving/recipes/roi-profiles.yaml": BAD_PROFILES},
    "profiles-twice": {"serving/recipes/roi-profiles.yaml": TWICE},
    "recipes": {
        "serving/recipes/glm.yaml": "id: glm\nengine: vllm\nroi_profile: glm-5.2\nprice: 3\n",
        "serving/recipes/drafts/glm.yaml": "id: glm\nengine: vllm\nroi_profile: 5\n",
        "serving/recipes/broken.yaml": "id: [\n",
        "serving/recipes/same.yaml": "id: glm\nengine: vllm\n",
    },
    "tags": {"run/roi-tags.json": '{"tiny": "qwen-35", "emb": 3, "aux": null}'},
    "tags-unknown": {"run/roi-tags.json": '{"tiny": "qwen-35"}'},
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_every_problem_has_a_place_and_nothing_is_charged(
    gateway: Gateway, folder: Path, golden: Golden, name: str
) -> None:
    for path, text in BAD[name].items():
        box.write(folder / path, text)

    ran = gateway("usage", "--cost")

    assert (ran.code, ran.out) == (1, "")
    golden(f"bad-{name}.txt", ran.err)


def test_a_tag_in_the_gateways_file_that_names_no_profile_is_told_at_its_line(
    gateway: Gateway, folder: Path
) -> None:
    text = (folder / "config.yaml").read_text()
    (folder / "config.yaml").write_text(text.replace("roi_profile: qwen-35b", "roi_profile: q", 1))

    ran = gateway("usage", "--cost")

    assert ran.code == 1
    assert "config.yaml:6:5: error[unknown-roi]: there is no ROI profile `q`" in ran.err


def test_a_price_for_nobody_is_a_warning(gateway: Gateway, folder: Path) -> None:
    price = {"old": {"default": {"in_per_m": 1, "out_per_m": 1}}}
    (folder / "run/prices.json").write_text(json.dumps(price))

    ran = gateway("usage", "--cost")

    assert ran.code == 0
    assert "run/prices.json:1:2: warning[unknown-roi]: this price is for `old`" in ran.err


@pytest.mark.parametrize("text", ["", "{}", "\n"])
def test_empty_files_of_this_machine_are_as_good_as_none(
    gateway: Gateway, folder: Path, text: str
) -> None:
    (folder / "run/prices.json").write_text(text)
    (folder / "run/roi-tags.json").write_text(text)

    ran = gateway("usage", "--cost")

    assert (ran.code, ran.err) == (0, "")


def test_the_recipes_and_profiles_of_this_repository_are_free_of_problems(folder: Path) -> None:
    here = ROOT / "serving/recipes"
    files = LedgerFiles(recipes=str(here), roi_profiles=str(here / "roi-profiles.yaml"))
    text = (folder / "config.yaml").read_text().replace(", roi_profile: qwen-35b", "")
    (folder / "config.yaml").write_text(text)
    (folder / "run/prices.json").unlink()
    config = load("config.yaml", {}, check_env=False).config
    assert config is not None

    known = read(files, config)

    assert not known.problems, render(known.problems)
    assert known.profiles
    assert len(known.tags.recipes) > 5


def test_files_are_read_again_only_once_one_has_changed(folder: Path) -> None:
    config = load("config.yaml", {}, check_env=False).config
    assert config is not None
    kept = Kept()

    first = kept.read(config)
    again = kept.read(config)
    box.write(folder / "serving/recipes/another.yaml", "id: another\nengine: vllm\n")
    after = kept.read(config)

    assert again is first
    assert "another" in after.tags.recipes
