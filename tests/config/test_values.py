"""A file that is right, as Config has it: defaults filled in, one form for each thing."""

from __future__ import annotations

import math
from typing import Any

import pytest

from gateway.config.addresses import upstream
from gateway.config.config import TierRule, Upstream
from tests.config.files import codes, config, deployment, entry, file, load

TEXT = {"chat", "completions", "responses", "messages", "count_tokens"}


def test_a_plain_deployment_has_every_default() -> None:
    found = deployment()

    assert found.id == "chat@gpu-1:8000/chat-model"
    assert (found.mode, found.weight, found.order) == ("chat", None, 1)
    assert (found.timeout_s, found.stream_timeout_s) == (None, None)
    assert (found.stream_idle_timeout_s, found.cooldown_s, found.allowed_fails) == (120, 5, 3)
    assert found.relays == {"chat", "completions"}
    assert found.bridges == {"responses", "messages", "count_tokens"}
    assert str(found.place) == "config.yaml:2:3"


def test_the_settings_hold_for_deployments_that_say_nothing() -> None:
    loaded = config(
        file(
            entry(),
            entry(
                timeout=5,
                stream_timeout=2,
                max_parallel_requests=1,
                cooldown_time=9,
                info={"allowed_fails": 7, "stream_idle_timeout_s": 3},
            ),
            router_settings={
                "timeout": 60,
                "stream_timeout": 30,
                "cooldown_time": 45,
                "allowed_fails": 1,
                "default_max_parallel_requests": 4,
                "num_retries": 0,
            },
            gateway_settings={"stream_idle_timeout_s": 20},
        )
    )

    one, two = loaded.deployments
    assert (one.timeout_s, one.stream_timeout_s, one.cooldown_s) == (60, 30, 45)
    assert (one.allowed_fails, one.max_parallel_requests, one.stream_idle_timeout_s) == (1, 4, 20)
    assert (two.timeout_s, two.stream_timeout_s, two.cooldown_s) == (5, 2, 9)
    assert (two.allowed_fails, two.max_parallel_requests, two.stream_idle_timeout_s) == (7, 1, 3)
    assert loaded.num_retries == 0


@pytest.mark.parametrize(
    ("params", "router", "timeout_s"),
    [
        ({}, {}, None),
        ({"timeout": 0}, {}, None),
        ({"timeout": 0}, {"timeout": 60}, None),
        ({"timeout": None}, {"timeout": 60}, 60),
        ({"request_timeout": 30}, {"timeout": 60}, 30),
        ({"timeout": 30, "request_timeout": 30}, {}, 30),
        ({"timeout": 1e9}, {}, 1e9),
    ],
)
def test_each_timeout_has_one_meaning(
    params: dict[str, Any], router: dict[str, Any], timeout_s: float | None
) -> None:
    loaded = config(file(entry(**params), router_settings=router))

    assert loaded.deployments[0].timeout_s == timeout_s


def test_a_stream_timeout_of_0_is_no_limit_though_there_is_a_timeout() -> None:
    found = deployment(timeout=60, stream_timeout=0)

    assert found.stream_timeout_s == math.inf


def test_litellm_settings_hold_where_router_settings_say_nothing() -> None:
    loaded = config(
        file(
            entry(),
            entry("other", api_base="http://gpu-2:8000/v1"),
            litellm_settings={
                "num_retries": 4,
                "request_timeout": 90,
                "allowed_fails": 2,
                "fallbacks": [{"chat": ["other"]}],
                "drop_params": True,
            },
        )
    )

    assert loaded.num_retries == 4
    assert loaded.deployments[0].timeout_s == 90
    assert loaded.deployments[0].allowed_fails == 2
    assert loaded.fallbacks == {"chat": ("other",)}
    assert loaded.deployments[0].litellm_params["drop_params"] is True


@pytest.mark.parametrize(
    ("address", "found"),
    [
        ("http://GPU-1:8000/v1", Upstream("gpu-1", 8000)),
        ("http://gpu-1./v1", Upstream("gpu-1", 80)),
        ("https://gpu-1/other", Upstream("gpu-1", 443)),
        ("http://localhost:8000/v1", Upstream("127.0.0.1", 8000)),
        ("http://app.localhost:8000/v1", Upstream("127.0.0.1", 8000)),
        ("http://127.1:8000/v1", Upstream("127.0.0.1", 8000)),
        ("http://127.0.0.2:8000/v1", Upstream("127.0.0.1", 8000)),
        ("http://0.0.0.0:8000/v1", Upstream("127.0.0.1", 8000)),
        ("http://[::1]:8000/v1", Upstream("127.0.0.1", 8000)),
        ("http://[::ffff:127.0.0.1]:8000/v1", Upstream("127.0.0.1", 8000)),
        ("http://0x7f000001:8000/v1", Upstream("127.0.0.1", 8000)),
        ("http://[FE80::0:1]:8000/v1", Upstream("fe80::1", 8000)),
        ("http://10.0.0.7:8000/v1", Upstream("10.0.0.7", 8000)),
        ("http://3com:8000/v1", Upstream("3com", 8000)),
    ],
)
def test_one_server_is_one_upstream(address: str, found: Upstream) -> None:
    assert upstream(address) == found


def test_a_trailing_slash_is_left_out() -> None:
    assert deployment(api_base="http://gpu-1:8000/v1/").api_base == "http://gpu-1:8000/v1"


def test_repeats_are_numbered_and_own_ids_are_kept() -> None:
    loaded = config(file(entry(), entry(), entry(info={"id": "mine"}), entry("other")))

    assert [d.id for d in loaded.deployments] == [
        "chat@gpu-1:8000/chat-model",
        "chat@gpu-1:8000/chat-model#2",
        "mine",
        "other@gpu-1:8000/chat-model",
    ]


@pytest.mark.parametrize(
    ("model", "info", "relays"),
    [
        ("hosted_vllm/m", {"engine": "vllm"}, TEXT),
        ("hosted_vllm/m", {"engine": "sglang"}, TEXT),
        ("openai/m", {"engine": "llama.cpp"}, TEXT),
        ("openai/m", {"engine": "llamacpp"}, TEXT),
        ("hosted_vllm/m", {"engine": "ollama"}, {"chat", "completions"}),
        ("hosted_vllm/m", {"engine": "tei", "mode": "embedding"}, {"embeddings"}),
        ("infinity/m", {"engine": "infinity", "mode": "rerank"}, {"rerank"}),
        ("hosted_vllm/m", {"mode": "embedding"}, {"embeddings"}),
        ("hosted_vllm/m", {"mode": "rerank"}, {"rerank"}),
        ("hosted_vllm/m", {"mode": "completion"}, {"completions"}),
        ("text-completion-openai/m", {}, {"completions"}),
        ("hosted_vllm/m", {"engine": "vllm", "apis": ["chat"]}, {"chat"}),
        ("hosted_vllm/m", {"apis": ["messages", "embeddings"]}, {"messages", "embeddings"}),
        ("anthropic/claude", {}, set()),
        ("nebius/m", {}, set()),
    ],
)
def test_what_is_relayed(model: str, info: dict[str, Any], relays: set[str]) -> None:
    found = deployment(model=model, info=info, api_key="none")

    assert found.relays == relays
    assert not found.relays & found.bridges


def test_openai_itself_is_bridged_and_its_upstream_is_the_providers_own() -> None:
    found = deployment(model="openai/gpt-x", api_base=None, api_key="os.environ/GPU_BASE")

    assert found.relays == frozenset()
    assert "chat" in found.bridges
    assert found.upstream == Upstream("openai", 0)
    assert found.id == "chat@openai/gpt-x"


def test_a_served_name_may_hold_slashes_and_the_provider_may_stand_apart() -> None:
    whole = deployment(model="hosted_vllm/org/model")
    apart = deployment(model="org/model", custom_llm_provider="hosted_vllm")

    assert whole.served_name == apart.served_name == "org/model"
    assert whole.provider == apart.provider == "hosted_vllm"


def test_sampling_keys_are_defaults_and_extra_body_is_fixed() -> None:
    found = deployment(
        temperature=0.5,
        top_k=20,
        chat_template_kwargs={"enable_thinking": True},
        extra_body={"min_p": 0.1},
        additional_drop_params=["logit_bias"],
    )

    assert found.defaults == {
        "temperature": 0.5,
        "top_k": 20,
        "chat_template_kwargs": {"enable_thinking": True},
    }
    assert found.fixed == {"min_p": 0.1}
    assert found.drop_params == {"logit_bias"}


def test_tiers_have_their_rules_and_queues() -> None:
    loaded = config(
        file(
            entry("chat"),
            entry("jobs", api_base="http://gpu-2:8000/v1"),
            entry("emb", info={"mode": "embedding"}, api_base="http://gpu-3:8000/v1"),
            entry(
                "emb-in", info={"mode": "embedding", "lane": "ingest"}, api_base="http://g4:1/v1"
            ),
            entry("rank", info={"mode": "rerank"}, api_base="http://g5:1/v1"),
            gateway_settings={
                "tiers": {
                    "interactive": {"models": ["chat"], "queue": {"max_wait_s": 3}},
                    "background": {"models": ["jobs"], "on_saturation": "fallback"},
                }
            },
        )
    )

    assert loaded.tiers == {
        "chat": "interactive",
        "jobs": "background",
        "emb": "auxiliary",
        "emb-in": "background",
        "rank": "auxiliary",
    }
    assert loaded.tier_rules == {
        "interactive": TierRule(max_wait_s=3, max_waiting=64),
        "auxiliary": TierRule(max_wait_s=10, max_waiting=64),
        "background": TierRule(max_wait_s=60, max_waiting=256, on_saturation="fallback"),
        "burst": TierRule(max_wait_s=0, max_waiting=0),
    }


def test_a_file_without_tiers_is_all_interactive() -> None:
    loaded = load(file(entry("a"), entry("b")))

    assert codes(loaded) == ["no-tiers"]
    assert loaded.config is not None
    assert loaded.config.tiers == {"a": "interactive", "b": "interactive"}


def test_aliases_pins_and_lists_lead_to_groups() -> None:
    loaded = config(
        file(
            entry("a"),
            entry("b"),
            router_settings={
                "model_group_alias": {"x": "a", "y": {"model": "b", "hidden": True}},
                "fallbacks": [{"a": ["y"]}, {"x": []}],
                "default_fallbacks": ["x"],
                "max_fallbacks": 0,
            },
            gateway_settings={
                "tiers": {"auxiliary": {"models": ["a", "b"]}},
                "task_pins": {"title": "a", "tag": {"model": "b", "fallbacks": False}},
            },
        )
    )

    assert {n: (a.group, a.hidden) for n, a in loaded.aliases.items()} == {
        "x": ("a", False),
        "y": ("b", True),
    }
    assert {t: (p.group, p.fallbacks) for t, p in loaded.pins.items()} == {
        "title": ("a", True),
        "tag": ("b", False),
    }
    assert loaded.fallbacks == {"a": ("b",), "x": ()}
    assert loaded.default_fallbacks == ("a",)
    assert loaded.max_fallbacks == 0


def test_a_granted_task_is_a_name_that_can_be_sent() -> None:
    environ = {"MASTER_KEY": "sk-master-0123456789", "ONE": "sk-one-0123456789"}

    loaded = config(
        file(
            gateway_settings={
                "tiers": {"auxiliary": {"models": ["chat"]}},
                "task_pins": {"title": "chat", "tag": "chat"},
                "client_keys": [
                    {"name": "one", "key": "os.environ/ONE", "models": ["title", "task/tag"]}
                ],
            }
        ),
        environ,
    )

    assert loaded.client_keys[0].models == {"task/title", "task/tag"}


@pytest.mark.parametrize(
    ("listen", "host", "port"),
    [("0.0.0.0:80", "0.0.0.0", 80), ("[::1]:9000", "::1", 9000), ("box.lan:9000", "box.lan", 9000)],
)
def test_listen_is_host_and_port(listen: str, host: str, port: int) -> None:
    loaded = config(file(gateway_settings={"listen": listen}))

    assert (loaded.host, loaded.port) == (host, port)


def test_no_secret_is_in_the_repr_of_a_config() -> None:
    loaded = config(file(entry(api_key="os.environ/MASTER_KEY")))

    assert "sk-master" not in repr(loaded)
