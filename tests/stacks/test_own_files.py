"""The stacks of this repository: clean, accepted by the real compose, and what the node needs."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from common.problems import render
from serving.cli import main
from serving.embeddings.models import QWEN3
from serving.stacks import words
from serving.stacks.check import check
from serving.stacks.compose import TEMPLATE, env_file, own_env_file, read_stack
from serving.stacks.draft import draft_profile
from serving.stacks.part import Part, parts
from serving.stacks.rules.routed import LANE_TOKENS
from tests.ground.repository import ROOT

COMPOSE = ROOT / "compose"
FILES = sorted(COMPOSE.glob("*.yaml"))


def own_parts() -> dict[str, Part]:
    """Every service of the shipped files, with its template's variables."""
    stacks = [read_stack(str(f), env_file(own_env_file(str(f)) or "")) for f in FILES]
    return {part.service.name: part for stack in stacks for part in parts(stack)}


def test_the_shipped_stacks_are_clean_alone_together_and_against_the_routing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(ROOT)

    code = main(["stacks", "check", "--routing", "config.example.yaml"])

    assert (code, capsys.readouterr().out) == (0, "5 files: no errors\n")


def test_every_local_deployment_of_the_example_is_matched_by_a_service(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(ROOT)

    code = main(["stacks", "check", "compose/gateway.yaml", "--routing", "config.example.yaml"])

    missing = re.findall(r"deployment '([\w-]+)@", capsys.readouterr().out)
    assert code == 1
    assert set(missing) == {
        *("primary-chat", "primary-chat-nothink", "aux-35b", "vision"),
        *("background-llm", "emb-ingest", "emb-query"),
    }


@pytest.mark.parametrize("file", FILES, ids=lambda f: f.stem)
def test_a_template_names_every_variable_and_no_more(file: Path) -> None:
    used = set(re.findall(r"\$\{(\w+)", file.read_text()))

    given = set(env_file(f"{COMPOSE / file.stem}.env{TEMPLATE}"))

    assert used <= given
    assert given - used <= {"COMPOSE_PROJECT_NAME", "VLLM_DIGEST"}


def test_the_gateways_template_names_every_variable_of_the_example_routing() -> None:
    told = re.sub(r"(^|\s)#.*", "", (ROOT / "config.example.yaml").read_text())  # what is in force
    used = set(re.findall(r"os\.environ/(\w+)", told))

    given = set(env_file(str(COMPOSE / f"gateway.keys.env{TEMPLATE}")))

    assert used == given


def test_no_template_holds_a_secret_or_a_real_address() -> None:
    for template in COMPOSE.glob(f"*{TEMPLATE}"):
        for name, value in env_file(str(template)).items():
            if re.search(r"KEY", name):
                assert value.startswith("replace-me"), f"{template.name}: {name}"
            for address in re.findall(r"\d+\.\d+\.\d+\.\d+", value):
                assert address == "192.0.2.10", f"{template.name}: {name}"


def test_each_project_has_a_name_of_its_own() -> None:
    names = [env_file(f"{COMPOSE / f.stem}.env{TEMPLATE}")["COMPOSE_PROJECT_NAME"] for f in FILES]

    assert len(set(names)) == len(FILES)


def test_the_node_has_its_ports_gpus_and_shares() -> None:
    found = own_parts()

    published = {n: p.ports[0].published for n, p in found.items()}
    assert published == {
        "primary": 8000,
        "aux": 8001,
        "vision": 8090,
        "gateway": 9000,
        "query": 8017,
        "ingest": 8016,
        "primary-sglang": 8013,
    }
    gpus = {n: sorted(p.gpu_ids) for n, p in found.items() if p.gpu_ids}
    assert gpus == {
        "primary": ["0", "1"],
        "primary-sglang": ["0", "1"],
        "aux": ["2"],
        "ingest": ["2"],
        "vision": ["2"],
    }
    shares = {n: p.launch.memory(p.service) for n, p in found.items() if p.launch}
    assert shares == {
        "primary": 0.90,
        "aux": 0.85,
        "primary-sglang": 0.99,
        "ingest": 0.06,
        "vision": 0.06,
    }


def test_the_query_lane_always_runs_within_its_limits_and_ingest_only_on_demand() -> None:
    found = own_parts()

    assert not found["query"].service.on_demand
    assert not found["query"].gpus
    assert (found["query"].service.data["cpus"], found["query"].service.data["mem_limit"]) == (
        4,
        "8g",
    )
    assert found["ingest"].service.data["profiles"] == ["ingest"]


def test_the_lane_the_routing_and_the_checker_agree_on_the_longest_text() -> None:
    query = own_parts()["query"].service
    routing = (ROOT / "config.example.yaml").read_text()
    [promised] = re.findall(r"lane: query, max_input_tokens: (\d+)", routing)

    assert words.of_service(query.data).number("--max-tokens") == int(promised)
    assert int(promised) == QWEN3.max_tokens == LANE_TOKENS


def test_a_digest_has_its_place_beside_each_tag() -> None:
    files = [f for f in FILES if "vllm" in f.read_text() or "IMAGE_TAG" in f.read_text()]
    digest = "@sha256:" + "0" * 64
    for file in files:
        variables = env_file(own_env_file(str(file)) or "")
        pinned = {n: digest if n.endswith("_DIGEST") else v for n, v in variables.items()}

        problems = check([read_stack(str(file), pinned)], production=True)

        built = [p for p in problems if "signalbox-" not in p.message and p.code == "image-digest"]
        assert not built, render(built)


@pytest.mark.parametrize(
    ("before", "after", "code"),
    [
        ("--max-running-requests=4", "--max-running-requests=5", "graph-list"),
        ("--max-mamba-cache-size=28", "--max-mamba-cache-size=19", "mamba-slots"),
        ("--hicache-size=${HICACHE_SIZE_GB:-32}", "--hicache-ratio=2", "host-cache"),
        ("--speculative-num-steps=5", "--speculative-num-steps=4", "draft-profile"),
        ("x-slot: pair", "x-slot: other", "gpu-shared"),
        (":/models/glm:ro", ":/models/glm", "weights-writable"),
        ("${LAN_IP:?the address that the gateway uses}:", "", "public-port"),
        ("start_period: 1800s", "start_period: 60s", "health-start"),
    ],
)
def test_an_edit_that_breaks_the_pair_is_caught(
    before: str, after: str, code: str, node: Path
) -> None:
    text = (COMPOSE / "sglang-glm.yaml").read_text()
    assert before in text
    edited = node / "edited.yaml"
    edited.write_text(text.replace(before, after))
    variables = env_file(str(node / "sglang-glm.env")) | env_file(str(node / "vllm.env"))

    stacks = [read_stack(str(edited), variables), read_stack(str(node / "vllm.yaml"), variables)]

    assert code in {problem.code for problem in check(stacks)}


@pytest.mark.parametrize(
    ("profile", "said"),
    [
        ("{", "is not JSON"),
        ("{}", "no batch size"),
        ('{"1": {"candidate_steps": [3, 6]}}', "may choose 6 steps"),
        ('{"1": {"candidate_steps": []}}', "must be whole numbers"),
        ('{"1": {"candidate_steps": [3], "up": 1}}', "`up` is not known"),
        ('{"1": {"candidate_steps": [3]}, "one": {}}', "neither a batch size"),
        ('{"1": {"candidate_steps": [3], "ceiling_coeff": "0"}}', "ceiling_coeff must be"),
        ('{"1": 3}', "must be a mapping"),
    ],
)
def test_a_draft_profile_that_would_fail_after_the_load_is_told_before(
    profile: str, said: str, node: Path
) -> None:
    (node / "adaptive.json").write_text(profile)
    stack = read_stack(str(node / "sglang-glm.yaml"), env_file(str(node / "sglang-glm.env")))

    (problem,) = draft_profile(parts(stack)[0])

    assert said in problem.message


def test_the_shipped_draft_profile_has_the_steps_of_the_node() -> None:
    profile = json.loads((COMPOSE / "adaptive.example.json").read_text())

    assert set(profile) == {"1", "4"}
    assert all(entry["candidate_steps"] == [3, 5] for entry in profile.values())


def test_the_stacks_are_read_without_the_gateways_code() -> None:
    code = "import sys, serving.cli_stacks; sys.exit('gateway' in sys.modules)"

    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT).returncode == 0


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        (
            "max_input_tokens: 131072",
            "max_input_tokens: 200000",
            "compose/vllm.yaml:62:5: error[con",
        ),
        ("hosted_vllm/qwen3.6-35b-a3b", "hosted_vllm/qwen3.6", "error[served-name]: service 'aux'"),
        (
            "max_input_tokens: 4096",
            "max_input_tokens: 32768",
            "error[context-length]: service 'query': it takes 4096 tokens a text",
        ),
        (
            "hosted_vllm/qwen3-emb-0.6b-cpu",
            "hosted_vllm/qwen3-emb-0.6b",
            "error[served-name]: service 'query'",
        ),
        ("engine: llama.cpp", "engine: vllm", "error[engine-differs]: service 'vision'"),
        (
            "api_key: os.environ/AUX_API_KEY",
            "stream_timeout: 60",
            "error[key-needed]: service 'aux'",
        ),
        ("os.environ/AUX_API_KEY", "os.environ/PRIMARY_API_KEY", "error[key-differs]"),
        ("auxiliary: {models: [aux-35b, vision]}", "", "error[interactive-gpu]"),
    ],
)
def test_an_edit_of_the_routing_that_the_stacks_do_not_follow_is_caught(
    before: str,
    after: str,
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(ROOT)
    text = (ROOT / "config.example.yaml").read_text()
    assert before in text
    if not after:  # vision becomes interactive, on the card of the auxiliary model
        text = text.replace("primary-chat-nothink]}", "primary-chat-nothink, vision]}")
        after = "auxiliary: {models: [aux-35b]}"
    edited = tmp_path / "config.yaml"
    edited.write_text(text.replace(before, after))

    code = main(["stacks", "check", "--routing", str(edited)])

    assert (code, said in capsys.readouterr().out) == (1, True)
