"""Variables: the only way to a secret, never half filled in."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.config.config import Upstream
from gateway.config.load import BadEnvFile, load_text, read_env_file
from tests.config.files import ENVIRON, codes, config, entry, file, load


def test_a_variable_is_filled_in_wherever_it_stands() -> None:
    loaded = config(
        file(entry(api_base="os.environ/GPU_BASE", extra_body={"a": ["os.environ/MASTER_KEY"]}))
    )

    found = loaded.deployments[0]
    assert found.api_base == "http://gpu-9:8000/v1"
    assert found.fixed == {"a": [ENVIRON["MASTER_KEY"]]}
    assert loaded.master_key == ENVIRON["MASTER_KEY"]


def test_a_value_is_taken_without_the_space_around_it() -> None:
    environ = {**ENVIRON, "GPU_BASE": " http://gpu-9:8000/v1\n"}

    loaded = config(file(entry(api_base="os.environ/GPU_BASE")), environ)

    assert loaded.deployments[0].api_base == "http://gpu-9:8000/v1"


def test_a_number_may_come_from_a_variable() -> None:
    environ = {**ENVIRON, "RPM": "8", "LIMIT": "2.5", "HIDDEN": "true"}

    loaded = config(
        file(
            entry(rpm="os.environ/RPM", timeout="os.environ/LIMIT"),
            router_settings={
                "model_group_alias": {"fast": {"model": "chat", "hidden": "os.environ/HIDDEN"}}
            },
        ),
        environ,
    )

    assert loaded.deployments[0].rpm == 8
    assert loaded.deployments[0].timeout_s == 2.5
    assert loaded.aliases["fast"].hidden


def test_a_name_that_looks_like_a_number_stays_text() -> None:
    loaded = config(file(entry(api_key="os.environ/DIGITS")), {**ENVIRON, "DIGITS": "123456789"})

    assert loaded.deployments[0].api_key == "123456789"


def test_without_the_environment_each_variable_is_an_upstream_of_its_own() -> None:
    text = file(
        entry(api_base="os.environ/ONE"),
        entry(api_base="os.environ/TWO"),
        entry(api_base="os.environ/ONE"),
    )

    loaded = config(text, {"ONE": "http://same:1/v1", "TWO": "http://same:1/v1"}, check_env=False)

    upstreams = [d.upstream for d in loaded.deployments]
    assert upstreams == [Upstream("$ONE", 0), Upstream("$TWO", 0), Upstream("$ONE", 0)]
    assert [d.id for d in loaded.deployments] == [
        "chat@$ONE/chat-model",
        "chat@$TWO/chat-model",
        "chat@$ONE/chat-model#2",
    ]


def test_without_the_environment_no_key_is_made_up() -> None:
    loaded = config(file(entry(api_key="os.environ/ONE")), {}, check_env=False)

    assert loaded.master_key is None
    assert loaded.deployments[0].api_key is None


def test_an_unset_variable_is_named_once_for_each_place() -> None:
    loaded = load(file(entry(api_base="os.environ/NONE"), entry(api_base="os.environ/NONE")), {})

    assert codes(loaded) == ["no-tiers", *["unset-variable"] * 3]
    assert "deployment 'chat' (member 2 of 2) needs it for `api_base`" in loaded.problems[2].message


def test_an_env_file_is_read_as_shells_write_it(tmp_path: Path) -> None:
    path = tmp_path / "node.env"
    path.write_text("# hosts\nA=1\n export B='two words'\nC=\"x#y\"\nD=x#y # note\n\nE=\nF=a=b\n")

    found = read_env_file(str(path))

    assert found == {"A": "1", "B": "two words", "C": "x#y", "D": "x#y", "E": "", "F": "a=b"}


def test_a_line_that_is_no_assignment_is_named_without_its_text(tmp_path: Path) -> None:
    path = tmp_path / "node.env"
    path.write_text("A=1\nsk-secret\n")

    with pytest.raises(BadEnvFile, match=r"node\.env:2:1") as caught:
        read_env_file(str(path))

    assert "sk-secret" not in str(caught.value)


def test_without_the_environment_a_number_from_a_variable_is_some_number() -> None:
    loaded = config(
        file(
            entry(
                model="os.environ/MODEL",
                rpm="os.environ/RPM",
                max_parallel_requests="os.environ/MPR",
                drop_params="os.environ/DROP",
                info={"mode": "os.environ/MODE"},
            ),
            gateway_settings={"listen": "os.environ/LISTEN", "drain_s": "os.environ/DRAIN"},
        ),
        {},
        check_env=False,
    )

    assert loaded.deployments[0].rpm == 1
    assert loaded.deployments[0].served_name == "$MODEL"


def test_a_master_key_that_is_not_read_is_a_key_all_the_same() -> None:
    loaded = load(file(), {}, check_env=False)

    assert "no-keys" not in {p.code for p in loaded.problems}


@pytest.mark.parametrize(
    "text",
    [
        b"gateway_settings:\n-  tiers: x\nmaster: os.environ/NOT_SET\n",
        b"gateway_settings:\n  client_keys: os.environ/NOT_SET\n",
        b"gateway_settings:\n  client_keys: [os.environ/NOT_SET]\n",
        b"gateway_settings: {client_keys: {0: os.environ/NOT_SET}}\n",
        b"model_list: {0: os.environ/NOT_SET}\n",
    ],
)
def test_an_unset_variable_in_a_block_of_another_shape_is_said(text: bytes) -> None:
    """Found by fuzzing: the message looked for names in a block that was none."""
    loaded = load_text(text, "f.yaml", {})

    assert loaded.config is None
    assert "unset-variable" in {p.code for p in loaded.problems}
