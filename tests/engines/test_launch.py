"""Start commands: every example recipe on a machine that has none of it, and what overrides do."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from serving.engines import engines
from serving.engines.engine import Host, Launch, Overrides
from serving.engines.eugr import command
from serving.engines.render import render
from serving.errors import Unusable
from serving.recipes.load import FOLDER, load_folder
from tests.recipes.build import GOOD, recipe

GOLDEN = Path(__file__).parent / "golden"
RECIPES = load_folder(FOLDER, drafts=True).recipes
HOST = Host(
    models="/srv/models",
    hf_home="/srv/hf",
    runner="/opt/spark-vllm-docker",
    llama_server="/opt/llama.cpp/llama-server",
    ds4_server="/opt/ds4/ds4-server",
    python="/opt/signalbox/bin/python",
    env={"HF_TOKEN": "hf_not_to_be_shown", "TENSORFOLD_LAUNCHER": "/opt/tensorfold-kit/start.sh"},
)


def same(name: str, text: str) -> None:
    """Holds text to a golden file. WRITE_GOLDEN=1 writes the files anew, to review."""
    file = GOLDEN / name
    text = text.replace(str(FOLDER), "RECIPES") + "\n"
    if os.environ.get("WRITE_GOLDEN"):
        file.write_text(text)
    assert text == file.read_text()


def started(name: str, **overrides: int | str) -> Launch:
    return engines.launch(RECIPES[name], HOST, Overrides(**overrides))  # type: ignore[arg-type]


@pytest.mark.parametrize("name", RECIPES)
def test_every_example_recipe_has_its_start_command(name: str) -> None:
    same(f"{name}.txt", render(started(name)))


@pytest.mark.parametrize("name", RECIPES)
def test_no_secret_of_the_machine_is_shown_or_stands_in_an_argument(name: str) -> None:
    launch = started(name)

    assert "hf_not" not in render(launch) + repr(launch) + " ".join(launch.argv)


@pytest.mark.parametrize("name", [n for n, r in RECIPES.items() if r.engine == "eugr"])
def test_the_runner_fills_in_the_command_of_a_service(name: str) -> None:
    same(f"{name}.command.txt", command(RECIPES[name], HOST))


def test_each_engine_has_an_example_and_a_row() -> None:
    assert {r.engine for r in RECIPES.values()} == set(engines.ENGINES)


def test_all_but_llama_cpp_and_the_embedded_engine_listen_on_8000() -> None:
    ports = {r.engine: started(name).port for name, r in RECIPES.items()}

    assert {e for e, port in ports.items() if port != 8000} == {"llamacpp", "embedded"}


@pytest.mark.parametrize("name", RECIPES)
def test_every_engine_listens_on_this_machine_alone_where_it_can_be_told(name: str) -> None:
    said = " ".join(started(name).argv)

    assert "0.0.0.0" not in said
    assert RECIPES[name].engine in ("flashnext", "tensorfold", "embedded") or "127.0.0.1" in said


def test_ds4_runs_with_the_context_and_the_drafter_of_production() -> None:
    argv = started("antirez-deepseek-v4-flash-ds4").argv

    assert argv[argv.index("-c") + 1] == "32768"
    assert argv[argv.index("--dspark") + 1].startswith("/srv/models/antirez/")
    assert engines.ENGINES["ds4"].probe.path == "/v1/models"


def test_sparkinfer_refuses_to_start_under_114_gib() -> None:
    recipe = RECIPES["0xsero-deepseek-v4-flash-0731-sparkinfer"]

    assert (recipe.min_free_gib, recipe.context.default) == (114, 384000)


def test_the_two_tensorfold_recipes_share_one_container_and_a_read_only_cache() -> None:
    both = [started(n) for n, r in RECIPES.items() if r.engine == "tensorfold"]

    assert {launch.container for launch in both} == {"qwen38-flash-next-tf"}
    assert all(launch.env["PORT"] == "8000" for launch in both)
    assert all(launch.env["PREPARE"] == "0" for launch in both)
    assert all(launch.mounts[0].read_only for launch in both)


@pytest.mark.parametrize("given", [{}, {"SPARK_TENSORFOLD_LAUNCHER": "/old/start.sh"}])
def test_a_kit_without_its_start_script_is_not_installed_and_nothing_is_cloned(
    given: dict[str, str],
) -> None:
    host = Host(env=given, kits={"tensorfold": "/kits/tf"})
    name = "nvidia-qwen3.8-flash-next-fp4-tensorfold"

    missing = engines.problems(RECIPES[name], host, exists=lambda _: False)

    script = given.get("SPARK_TENSORFOLD_LAUNCHER", "/kits/tf/start.sh")
    assert missing[0] == f"kit not installed: there is no {script}"
    assert "git" not in " ".join(engines.launch(RECIPES[name], host).argv)


def test_up_detection_knows_the_recipes_container_and_the_usual_one(tmp_path: Path) -> None:
    text = GOOD.replace("engine: llamacpp", "engine: sglang").replace(
        'model: "{models}/one.gguf"\nllamacpp_args: [-ngl, "999"]\n',
        'sglang: {image: "lmsysorg/sglang:v1", model: m, container: mine}\n',
    )

    launch = engines.launch(recipe(tmp_path, text), HOST)

    assert launch.names == ("mine", "qwen38-sglang")
    assert launch.container == "mine"


def test_a_preset_sets_context_cache_and_sequences() -> None:
    argv = started("opencode-qwen36-250k", preset="many").argv

    assert argv[argv.index("--max-model-len") + 1] == "131072"
    assert argv[argv.index("--max-num-seqs") + 1] == "8"


def test_an_own_context_wins_over_the_preset_and_over_the_arguments() -> None:
    launch = started("qwen3.6-27b-q4-llamacpp", preset="full", ctx=8192, kv="f16")

    assert launch.argv[launch.argv.index("-c") + 1] == "8192"
    assert launch.argv.count("-c") == 1
    assert launch.argv[launch.argv.index("--cache-type-k") + 1] == "f16"
    assert launch.ctx == 8192


@pytest.mark.parametrize(
    ("name", "overrides", "said"),
    [
        ("small-one", {"preset": "lnog"}, "no preset 'lnog' (it has: short, long)"),
        ("small-one", {"ctx": 9000}, "1 to 8192 tokens, not 9000"),
        ("small-one", {"kv": "q8_0"}, "takes no KV type"),
        ("antirez-deepseek-v4-flash-ds4", {"kv": "fp8"}, "takes no KV type"),
    ],
)
def test_what_an_engine_cannot_do_is_said_before_it_starts(
    name: str, overrides: dict[str, str | int], said: str
) -> None:
    with pytest.raises(Unusable) as error:
        started(name, **overrides)

    assert said in str(error.value)


def test_a_literal_brace_of_json_stays_and_a_path_of_the_machine_is_filled_in(
    tmp_path: Path,
) -> None:
    args = '[--chat-template-kwargs, \'{"a": 1}\', --lora, "{models}/x"]'
    text = GOOD.replace('[-ngl, "999"]', args)

    argv = engines.launch(recipe(tmp_path, text), HOST).argv

    assert '{"a": 1}' in argv
    assert "/srv/models/x" in argv


def test_several_machines_are_named_to_the_runner(tmp_path: Path) -> None:
    service = (FOLDER / "services/qwen3.6-27b-dflash.yaml").read_text()
    text = (FOLDER / "opencode-qwen27-dflash-262k.yaml").read_text()
    text = text.replace("id: opencode-qwen27-dflash-262k", "id: one").replace(
        "roi_profile: qwen3.6-27b", "roi_profile: qwen"
    )
    text += "eugr: {solo: false, no_ray: true, nodes: [10.0.0.1, 10.0.0.2], master_port: 29501}\n"

    made = recipe(tmp_path, text, **{"services__qwen3.6-27b-dflash": service})

    said = " ".join(engines.launch(made, HOST).argv)
    assert "-d --no-ray -n 10.0.0.1,10.0.0.2 --master-port 29501 " in said


@pytest.mark.parametrize("name", RECIPES)
def test_a_machine_without_its_hardware_is_told_what_is_missing(name: str) -> None:
    missing = engines.problems(RECIPES[name], HOST, exists=lambda _: False)

    assert missing
    assert all(line[0].islower() for line in missing)
