"""The files of this project: the example, the editor's schema, LiteLLM's keys, the pin."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import yaml

from common.problems import render
from gateway.config import known
from gateway.config.load import load, load_text
from gateway.config.params import DEFAULTS
from gateway.config.providers import NEEDS_ADDRESS, OPENAI_WIRE
from gateway.config.refused import REFUSED_BODY_NAMES, REFUSED_BODY_PREFIXES, is_refused
from gateway.config.schema import GatewaySettings
from tools import config_schema

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "config.example.yaml"
NAMES = set(re.findall(r"os\.environ/([A-Z_]{5,})", EXAMPLE.read_text()))
ENVIRON = {
    name: f"http://{name.lower().replace('_', '-')}.example:8000/v1"
    if name.endswith("_BASE")
    else f"sk-{name.lower()}-0123456789"
    for name in NAMES
}


def test_the_example_has_no_error_and_only_warnings_that_it_means() -> None:
    loaded = load(str(EXAMPLE), ENVIRON)

    assert loaded.config is not None, render(loaded.problems)
    assert {p.code for p in loaded.problems} == {"shared-upstream"}


def test_the_example_is_the_reference_node() -> None:
    config = load(str(EXAMPLE), ENVIRON).config

    assert config is not None
    assert config.tiers == {
        "primary-chat": "interactive",
        "primary-chat-nothink": "interactive",
        "aux-35b": "auxiliary",
        "vision": "auxiliary",
        "background-llm": "background",
        "emb-ingest": "background",
        "emb-query": "auxiliary",
        "burst-nemotron": "burst",
    }
    assert set(config.fallbacks) == {"primary-chat", "primary-chat-nothink", "background-llm"}
    assert set(config.fallbacks.values()) == {("burst-nemotron",)}
    assert len(config.pins) == 6
    light, heavy = config.groups()["background-llm"][::-1]
    assert (light.weight, light.rpm, light.max_parallel_requests) == (1, 4, 1)
    assert (heavy.weight, heavy.rpm, heavy.max_parallel_requests) == (10, 8, 1)
    assert not config.groups()["burst-nemotron"][0].relays
    assert config.callbacks == ("gateway.bridge.callbacks.recorder",)


def test_the_example_without_the_overflow_is_right_too() -> None:
    data = yaml.safe_load(EXAMPLE.read_text())
    members = [e for e in data["model_list"] if e["model_name"] == "background-llm"]
    data["model_list"].remove(members[1])

    loaded = load_text(yaml.safe_dump(data).encode(), "config.yaml", ENVIRON)

    assert loaded.config is not None, render(loaded.problems)


def test_the_example_shows_every_setting_of_the_gateway() -> None:
    block = EXAMPLE.read_text().partition("\ngateway_settings:\n")[2]

    shown = re.findall(r"^  (?:# )?([a-z_]+):", block, re.MULTILINE)

    assert sorted(shown) == sorted(GatewaySettings.model_fields)


def test_the_example_names_no_host_and_no_key() -> None:
    data = yaml.safe_load(EXAMPLE.read_text())

    params = [e["litellm_params"] for e in data["model_list"]]
    values = [p[key] for p in params for key in ("api_base", "api_key") if key in p]
    assert all(value.startswith("os.environ/") for value in values)


def test_the_editors_schema_is_current() -> None:
    assert config_schema.OUT.read_text() == config_schema.text(), (
        "run: python tools/config_schema.py"
    )


def test_the_list_of_litellms_keys_is_of_the_pinned_release() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]

    assert f"litellm=={known.litellm_keys().release}" in project["dependencies"], (
        "the pin has moved: run tools/litellm_keys.py on the new release, read what changed in"
        " gateway/config/litellm_keys.json, and see whether UNSAFE still names what is unsafe"
    )


def test_every_lock_that_has_litellm_has_the_pinned_release() -> None:
    for lock in (ROOT / "requirements").glob("*.txt"):
        for found in re.findall(r"^litellm==(\S+)", lock.read_text(), re.MULTILINE):
            assert found == known.litellm_keys().release, lock.name


def test_the_lists_of_keys_and_tables_agree() -> None:
    keys = known.litellm_keys()

    assert set(keys.blocks) == set(known.FIELDS) - {"gateway_settings"}
    assert keys.providers >= OPENAI_WIRE | NEEDS_ADDRESS
    assert not DEFAULTS & set(known.FIELDS["litellm_params"].model_fields)
    for block, names in keys.blocks.items():
        assert not set(names.unsafe) & set(known.FIELDS[block].model_fields), block


def test_loading_imports_nothing_heavy() -> None:
    code = (
        "import sys, gateway.config.load\n"
        "heavy = {'litellm', 'asyncio', 'aiohttp', 'httpx', 'starlette', 'uvicorn'}\n"
        "print(*sorted(heavy & set(sys.modules)))"
    )

    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )

    assert done.stdout.strip() == ""


def test_a_body_cannot_redirect() -> None:
    for name in ("api_base", "base_url", "api_key", "fallbacks", "extra_headers", "model_list"):
        assert name in REFUSED_BODY_NAMES
    assert is_refused("mock_response")
    assert REFUSED_BODY_PREFIXES == ("mock_",)


def test_a_body_may_say_how_to_sample() -> None:
    assert not [name for name in DEFAULTS | {"model", "messages", "stream"} if is_refused(name)]


def test_the_keys_file_is_sorted_so_that_a_diff_shows_what_changed() -> None:
    text = (ROOT / "gateway/config/litellm_keys.json").read_text()

    assert text == json.dumps(json.loads(text), indent=1, sort_keys=True, ensure_ascii=False) + "\n"


def test_every_code_of_the_checker_has_its_line_in_the_docs() -> None:
    said = {
        code
        for golden in (ROOT / "tests/config/golden").glob("*.txt")
        for code in re.findall(r"(?:error|warning)\[([a-z-]+)\]", golden.read_text())
    }
    pages = [ROOT / "docs" / name for name in ("checker.md", "isolation.md")]
    rows = [line for page in pages for line in page.read_text().splitlines() if line[:2] == "| "]
    documented = {code for row in rows for code in re.findall(r"`([a-z-]+)`", row.split("|")[1])}

    assert said - documented == set()
