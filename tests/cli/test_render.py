"""`gateway render --stock`: the file of the way out."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from gateway.config.load import load_text
from gateway.config.way_out import render
from tests.cli.conftest import Gateway
from tests.commands import Golden
from tests.config.files import ENVIRON, entry, file

ENV = ("--env-file", "node.env")


def rendered(text: bytes) -> tuple[str, dict[str, object]]:
    """The file for the stock proxy, and what YAML reads in it."""
    loaded = load_text(text, "config.yaml", ENVIRON)
    assert loaded.config is not None, loaded.problems
    out = render(loaded.config, yaml.safe_load(text), release="1.2.3")
    return out, yaml.safe_load(out)


def test_the_node(gateway: Gateway, golden: Golden) -> None:
    ran = gateway("render", "--stock", "config.yaml", *ENV)

    assert (ran.code, ran.err) == (0, "")
    golden("render-stock.yaml", re.sub(r"revision [0-9a-f]{12}\S*", "revision REVISION.", ran.out))
    assert "secret" not in ran.out


def test_a_file_is_written_where_it_is_told(gateway: Gateway, node: Path) -> None:
    ran = gateway("render", "--stock", "config.yaml", *ENV, "-o", "out.yaml")

    assert (ran.code, ran.out) == (0, "")
    assert "model_list" in yaml.safe_load((node / "out.yaml").read_text())


def test_hosts_and_keys_stay_variables_with_and_without_them(gateway: Gateway) -> None:
    with_them = gateway("render", "--stock", "config.yaml", *ENV)
    without = gateway("render", "--stock", "config.yaml", "--no-env")

    assert with_them.out == without.out
    assert "os.environ/PRIMARY_API_BASE" in with_them.out
    assert "gpu-1" not in with_them.out


def test_a_file_with_errors_is_not_rendered(gateway: Gateway, node: Path) -> None:
    (node / "config.yaml").write_text("model_list: []\n")

    ran = gateway("render", "--stock", "config.yaml")

    assert (ran.code, ran.out) == (1, "")
    assert "no-deployments" in ran.err


def test_only_the_stock_proxy_is_rendered_for(gateway: Gateway) -> None:
    assert gateway("render", "config.yaml").code == 2


def test_an_alias_and_a_task_have_their_groups_fallbacks() -> None:
    _, data = rendered(
        file(
            entry("a"),
            entry("b"),
            router_settings={"fallbacks": [{"a": ["b"]}], "model_group_alias": {"one": "a"}},
            gateway_settings={
                "tiers": {"auxiliary": {"models": ["a", "b"]}},
                "task_pins": {"x": "a", "y": {"model": "a", "fallbacks": False}},
            },
        )
    )

    router = data["router_settings"]
    assert isinstance(router, dict)
    assert router["fallbacks"] == [{"a": ["b"]}, {"one": ["b"]}, {"task/x": ["b"]}]
    assert router["model_group_alias"] == {"one": "a", "task/x": "a", "task/y": "a"}


def test_members_without_a_weight_get_equal_ones() -> None:
    _, data = rendered(file(entry("a", rpm=3), entry("a", rpm=9)))

    members = data["model_list"]
    assert isinstance(members, list)
    assert [m["litellm_params"]["weight"] for m in members] == [1, 1]


def test_three_allowed_fails_are_two_because_three_means_unset_there() -> None:
    _, data = rendered(file(router_settings={"allowed_fails": 3}))

    router = data["router_settings"]
    assert isinstance(router, dict)
    assert router["allowed_fails"] == 2


@pytest.mark.parametrize(
    ("params", "timeout"), [({}, None), ({"timeout": 0}, None), ({"request_timeout": 30}, 30)]
)
def test_a_time_limit_is_written_by_its_one_name(
    params: dict[str, Any], timeout: int | None
) -> None:
    _, data = rendered(file(entry(**params)))

    members = data["model_list"]
    assert isinstance(members, list)
    assert members[0]["litellm_params"].get("timeout") == timeout
    assert "request_timeout" not in members[0]["litellm_params"]


def test_what_has_no_counterpart_is_named() -> None:
    text, _ = rendered(file(gateway_settings={"heartbeat_s": 5, "affinity": {"chat": "X-Session"}}))

    assert "# - Without a counterpart: `heartbeat_s`, `affinity`." in text
