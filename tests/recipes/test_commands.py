"""`serving recipe ...` as a person runs it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from serving.cli import main
from serving.recipes.load import FOLDER, load_folder
from serving.recipes.schema import EngineName
from tests.commands import Command, held_to, runs
from tests.recipes.build import GOOD, folder

GOLDEN = Path(__file__).parent / "golden"


Serving = Command


@pytest.fixture
def serving(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Serving:
    """Runs `serving recipe ARGS --recipes recipes` in a folder with a copy of the examples."""
    shutil.copytree(FOLDER, tmp_path / "recipes", ignore=shutil.ignore_patterns("*.py*", "__*"))
    monkeypatch.chdir(tmp_path)
    return runs(main, capsys, ["recipe"], ["--recipes", "recipes"])


same = held_to(GOLDEN)


def test_the_list_is_a_table(serving: Serving) -> None:
    ran = serving("list")

    assert (ran.code, ran.err) == (0, "")
    same("list.txt", ran.out)


def test_the_list_as_data_has_the_same_recipes_and_drafts_when_asked(serving: Serving) -> None:
    data = json.loads(serving("list", "--drafts", "--json").out)

    by_id = {entry["id"]: entry for entry in data}
    assert by_id["qwen-qwen3.8-35b-a3b-vllm"]["lifecycle"] == "draft"
    assert by_id["opencode-qwen27-dflash-262k"]["aliases"] == ["qwen3.6-27b-dflash"]
    assert [entry["id"] for entry in data if "NVFP4 (vLLM image)" in entry["name"]] == [
        "qwen36-nvfp4"
    ]
    assert by_id["qwen36-nvfp4"]["default"] is False
    assert len(serving("list").out.splitlines()) == len(data)  # without the draft, with a head


def test_no_display_name_bears_a_client() -> None:
    names = [recipe.name.lower() for recipe in load_folder(FOLDER, drafts=True).recipes.values()]

    assert not [n for n in names if "opencode" in n or "hermes" in n or "grok" in n]


def test_a_recipe_is_shown_whole_by_its_id_or_alias(serving: Serving) -> None:
    ran = serving("show", "qwen3.6-27b-dflash")

    assert ran.code == 0
    same("show.txt", ran.out.replace(str(Path.cwd()), "HERE"))
    data = json.loads(serving("show", "opencode-qwen27-dflash-262k", "--json").out)
    assert data["block"]["service"]["file"]["defaults"]["port"] == 8000


def test_a_name_that_is_not_there_has_its_nearest(serving: Serving) -> None:
    ran = serving("show", "opencode-qwen36-250")

    assert ran.code == 1
    assert ran.err == (
        "serving: there is no recipe 'opencode-qwen36-250' (did you mean 'opencode-qwen36-250k'?)\n"
    )


def test_the_examples_have_no_errors(serving: Serving) -> None:
    ran = serving("check")

    assert (ran.code, ran.out.splitlines()[-1]) == (0, "15 recipes: no errors and 1 warning")


def test_errors_are_listed_by_place_and_the_exit_code_is_1(serving: Serving) -> None:
    broken = Path("recipes/qwen36-nvfp4.yaml")
    broken.write_text(broken.read_text().replace("tier: heavy", "teir: heavy"))

    ran = serving("check")
    data = json.loads(serving("check", "--json").out)
    shown = serving("list")

    assert ran.code == shown.code == 1
    assert "recipes/qwen36-nvfp4.yaml:7:1: error[unknown-key]" in ran.out
    assert [p["code"] for p in data["problems"] if p["severity"] == "error"] == ["unknown-key"]
    assert "1 error in files: `serving recipe check`" in shown.err
    assert "qwen36-nvfp4 " not in shown.out
    assert "unknown-key" in serving("show", "qwen36-nvfp4").err


@pytest.mark.parametrize("engine", EngineName.__args__)  # type: ignore[attr-defined]
def test_a_scaffolded_draft_of_each_engine_can_be_read(engine: str, serving: Serving) -> None:
    ran = serving("scaffold", "Lab/New.Model-9B", engine)

    assert ran.code == 0
    found = load_folder(Path("recipes"), drafts=True)
    own = [p.code for p in found.problems if f"lab-new.model-9b-{engine}" in p.place.file]
    # A pin cannot be made up: it is the one file that a person must bring.
    assert own == (["pin-file"] if engine == "sparkinfer" else [])


def test_a_draft_is_not_written_over(serving: Serving) -> None:
    serving("scaffold", "lab/new", "vllm")

    again = serving("scaffold", "lab/new", "vllm")

    assert again.code == 1
    assert "there is already a recipe recipes/drafts/lab-new-vllm.yaml" in again.err


@pytest.mark.parametrize("args", [("scaffold", "lab/new", "vlm"), ("promote",), ("list", "x")])
def test_wrong_arguments_end_with_2(args: tuple[str, ...], serving: Serving) -> None:
    assert serving(*args).code == 2


@pytest.mark.parametrize("name", ["new", "lab/", "../x", "lab/x y"])
def test_what_is_no_slug_of_the_catalog_is_refused(name: str, serving: Serving) -> None:
    ran = serving("scaffold", name, "vllm")

    assert (ran.code, "is no LAB/SLUG" in ran.err) == (1, True)


def test_a_draft_leaves_only_with_a_cloud_identity_and_moves_out_of_drafts(
    serving: Serving,
) -> None:
    name = "qwen-qwen3.8-35b-a3b-vllm"
    refused = serving("promote", name)
    unknown = serving("roi", name, "qwen3.8-27")
    serving("roi", name, "qwen3.8-27b")

    ran = serving("promote", name)

    assert refused.code == unknown.code == 1
    assert "leaves draft only with a ROI profile" in refused.err
    assert "did you mean 'qwen3.8-27b'?" in unknown.err
    assert ran.out == f"recipes/{name}.yaml: draft -> testing\n"
    assert not Path(f"recipes/drafts/{name}.yaml").exists()
    made = load_folder(Path("recipes")).recipes[name]
    assert (made.lifecycle, made.roi_profile) == ("testing", "qwen3.8-27b")
    assert made.promoted_at


def test_promotion_changes_two_lines_and_no_comment(serving: Serving) -> None:
    path = Path("recipes/nvidia-qwen3.8-flash-next-fp4-tensorfold.yaml")
    before = path.read_text().splitlines()

    serving("promote", path.stem)

    after = path.read_text().splitlines()
    assert [line for line in before if line not in after] == ["lifecycle: testing"]
    new = [line for line in after if line not in before]
    assert [line.partition(":")[0] for line in new] == ["lifecycle", "promoted_at"]


def test_a_step_may_be_named_and_there_is_none_above_production(serving: Serving) -> None:
    assert "works -> failed" in serving("promote", "qwen36-nvfp4", "failed").out
    assert "failed -> testing" in serving("promote", "qwen36-nvfp4").out
    assert serving("promote", "opencode-qwen36-250k").code == 1
    assert serving("promote", "opencode-qwen36-250k", "draft").code == 1


NEW = ("id=glm", "name=GLM 5.3", "family=glm", "version=5.3", "params=355B-A32B")
CLOUD = ("provider=zai", "model=glm-5.3", "in=0.6", "out=2.2")


def test_a_new_identity_goes_into_git_and_its_prices_do_not(serving: Serving) -> None:
    ran = serving("roi-new", "qwen36-nvfp4", *NEW, *CLOUD)

    assert ran.code == 0
    identities = Path("recipes/roi-profiles.yaml").read_text()
    assert '- id: "glm"' in identities
    assert "0.6" not in identities
    prices = json.loads(Path("run/prices.json").read_text())
    assert prices["glm"]["default"] == {"in_per_m": 0.6, "out_per_m": 2.2}
    assert prices["glm"]["history"][0]["to"] is None
    assert load_folder(Path("recipes")).recipes["qwen36-nvfp4"].roi_profile == "glm"


def test_prices_may_be_kept_in_another_file_and_others_stay(serving: Serving) -> None:
    Path("p.json").write_text('{"old": {"default": {"in_per_m": 1, "out_per_m": 2}}}')

    serving("roi-new", "qwen36-nvfp4", *NEW, *CLOUD, "--prices", "p.json")

    assert set(json.loads(Path("p.json").read_text())) == {"old", "glm"}
    assert not Path("run").exists()


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        (NEW, "roi-new needs provider= model= in= out="),
        ((*NEW, *CLOUD, "famly=x"), "`famly=` is not known (did you mean 'family'?)"),
        ((*NEW, *CLOUD[:-1], "out=cheap"), "`out=cheap` is no price"),
        ((*NEW, *CLOUD[:-1], "out=-1"), "`out=-1` is no price"),
        ((*NEW, *CLOUD[:-1], "out=nan"), "`out=nan` is no price"),
        (("id=qwen3.6-27b", *NEW[1:], *CLOUD), "'qwen3.6-27b' is there"),
        (("id=5.3", *NEW[1:], *CLOUD), "cannot set `roi_profile`"),
        (("id=a # b", *NEW[1:], *CLOUD), "cannot set `roi_profile`"),
    ],
)
def test_a_new_identity_is_refused_whole(
    fields: tuple[str, ...], said: str, serving: Serving
) -> None:
    before = Path("recipes/roi-profiles.yaml").read_text()

    ran = serving("roi-new", "qwen36-nvfp4", *fields)

    assert ran.code == 1
    assert said in ran.err
    assert Path("recipes/roi-profiles.yaml").read_text() == before
    assert not Path("run").exists()


def test_prices_that_are_no_prices_are_not_written_over(serving: Serving) -> None:
    Path("p.json").write_text("[")

    ran = serving("roi-new", "qwen36-nvfp4", *NEW, *CLOUD, "--prices", "p.json")

    assert (ran.code, "p.json is not JSON" in ran.err) == (1, True)
    assert "glm" not in Path("recipes/roi-profiles.yaml").read_text()


def test_our_own_folder_is_the_default(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["recipe", "list"]) == 0
    assert "small-one" in capsys.readouterr().out


def test_a_folder_that_is_not_there_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["recipe", "list", "--recipes", "none"]) == 1
    assert capsys.readouterr().err == "serving: there is no folder none\n"


def test_an_empty_folder_has_no_recipes(tmp_path: Path) -> None:
    assert load_folder(tmp_path).recipes == {}


def test_a_recipe_without_drafts_does_not_see_them(tmp_path: Path) -> None:
    draft = GOOD.replace("works", "draft").replace("id: one", "id: two")
    made = folder(tmp_path, one=GOOD, drafts__two=draft)

    assert set(load_folder(made).recipes) == {"one"}
    assert set(load_folder(made, drafts=True).recipes) == {"one", "two"}
