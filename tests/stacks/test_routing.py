"""Stacks held against the routing: addresses, names, context, keys, tiers and GPUs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from common.problems import Problem
from serving.errors import Unusable
from serving.stacks.check import check
from serving.stacks.compose import Stack
from serving.stacks.routing import read
from tests.stacks.files import compose, deployment, engine, routes

ROUTED_CODES = {
    *("no-service", "served-name", "served-name-differs", "engine-differs", "context-length"),
    *("key-needed", "key-missing", "key-differs"),
    *("interactive-gpu", "tier-on-demand", "lane-on-demand"),
}
LLAMA = "ghcr.io/ggml-org/llama.cpp:server-b7000"


def found(
    *stacks: Stack, given: list[dict[str, Any]], variables: dict[str, str] | None = None
) -> list[Problem]:
    """What is wrong between these stacks and these deployments."""
    problems = check(stacks, read(routes(*given)), variables=variables)
    return [p for p in problems if p.code in ROUTED_CODES]


def codes(*stacks: Stack, given: list[dict[str, Any]], **variables: str) -> list[str]:
    return [p.code for p in found(*stacks, given=given, variables=variables)]


def llama(*command: str, **given: Any) -> dict[str, Any]:
    """A llama.cpp service at the engine's address."""
    return engine(image=LLAMA, command=[*command, "--port", "8000"], ipc=None, **given)


def test_a_stack_that_is_what_the_routing_says_is_clean() -> None:
    assert not found(compose(chat=engine()), given=[deployment()])


@pytest.mark.parametrize(
    "upstream",
    [
        {"host": "192.0.2.10", "port": 8001},
        {"host": "192.0.2.11", "port": 8000},
        {"host": "127.0.0.1", "port": 8000},
    ],
)
def test_a_local_deployment_without_a_service_is_named_in_the_routing_file(
    upstream: dict[str, Any],
) -> None:
    problems = found(compose(chat=engine()), given=[deployment(upstream=upstream)])

    assert [p.code for p in problems] == ["no-service"]
    assert str(problems[0].place) == "config.yaml:7:5"


def test_a_name_for_a_host_is_taken_by_its_port() -> None:
    upstream = {"host": "gpu-1", "port": 8000}

    assert not found(compose(chat=engine()), given=[deployment(upstream=upstream)])


def test_a_service_name_is_an_address_inside_compose() -> None:
    upstream = {"host": "chat", "port": 8000}

    assert not found(compose(chat=engine(ports=None)), given=[deployment(upstream=upstream)])


@pytest.mark.parametrize(
    "given",
    [
        {"tier": "burst"},
        {"upstream": {"host": "nebius", "port": None}, "api_base": None},
        {"upstream": {"host": "api.example.com", "port": 443}},
    ],
)
def test_what_is_not_in_the_house_needs_no_service(given: dict[str, Any]) -> None:
    elsewhere = {"upstream": {"host": "192.0.2.99", "port": 1}, **given}

    assert not found(compose(chat=engine()), given=[deployment(**elsewhere)])


def test_a_name_that_the_engine_does_not_serve_is_a_404() -> None:
    assert codes(compose(chat=engine()), given=[deployment(served_name="other")]) == ["served-name"]


def test_an_engine_that_answers_to_any_name_is_only_a_warning() -> None:
    stack = compose(chat=llama("-m", "/models/one/x.gguf", "--alias", "one"))

    assert codes(stack, given=[deployment(engine="llama.cpp")]) == ["served-name-differs"]


def test_another_engine_than_the_routing_says_speaks_other_dialects() -> None:
    assert codes(compose(chat=engine()), given=[deployment(engine="sglang")]) == ["engine-differs"]


def test_a_promised_context_that_the_engine_does_not_take_is_refused() -> None:
    given = [deployment(max_input_tokens=8192)]

    assert codes(compose(chat=engine()), given=given) == ["context-length"]


def test_llama_cpp_divides_its_context_among_parallel_requests() -> None:
    stack = compose(chat=llama("-m", "/models/one/x.gguf", "-c", "8192", "-np", "4"))

    problems = found(stack, given=[deployment(engine="llama.cpp")])

    assert [p.code for p in problems] == ["context-length"]
    assert "2048 tokens a request" in problems[0].message


KEYED = {"keyed": True, "key_variable": "CHAT_KEY"}
ASKS = {"environment": {"VLLM_API_KEY": "${NONE}-one"}}


def test_an_engine_that_asks_for_a_key_is_sent_one() -> None:
    assert codes(compose(chat=engine(**ASKS)), given=[deployment()]) == ["key-needed"]


def test_a_key_that_is_sent_is_asked_for() -> None:
    assert codes(compose(chat=engine()), given=[deployment(**KEYED)]) == ["key-missing"]


def test_one_secret_under_two_names_is_one_secret() -> None:
    stack = compose(chat=engine(**ASKS))

    assert codes(stack, given=[deployment(**KEYED)], CHAT_KEY="-two") == ["key-differs"]
    assert codes(stack, given=[deployment(**KEYED)], CHAT_KEY="-one") == []


def test_a_key_that_differs_is_not_shown() -> None:
    stack = compose(chat=engine(**ASKS))

    (problem,) = found(stack, given=[deployment(**KEYED)], variables={"CHAT_KEY": "-hidden-value"})

    assert "hidden" not in problem.message
    assert "-one" not in problem.message


def test_interactive_gpus_are_used_by_nothing_else_not_even_on_demand() -> None:
    waited = deployment(tier="interactive")
    other = engine(ports=None, profiles=["batch"], volumes=["/srv/cache/two:/cache"])

    assert "interactive-gpu" in codes(compose(chat=engine(), batch=other), given=[waited])
    assert "interactive-gpu" not in codes(compose(chat=engine(), batch=other), given=[deployment()])


def test_one_slot_may_hold_the_interactive_gpus_one_at_a_time() -> None:
    waited = deployment(tier="interactive")
    other = engine(ports=None, volumes=["/srv/cache/two:/cache"])
    stack = compose(chat=engine() | {"x-slot": "pair"}, spare=other | {"x-slot": "pair"})

    assert not codes(stack, given=[waited])


def test_a_fallback_to_a_deployment_does_not_make_it_interactive() -> None:
    names = [{"name": "x", "kind": "group", "tier": "interactive", "how": "fallback", "depth": 1}]

    assert not codes(compose(chat=engine(profiles=["vision"])), given=[deployment(names=names)])


def test_what_people_wait_on_is_not_started_on_demand() -> None:
    stack = compose(chat=engine(profiles=["later"]))

    assert codes(stack, given=[deployment(tier="interactive")]) == ["tier-on-demand"]
    assert codes(stack, given=[deployment(lane="query")]) == ["tier-on-demand"]


def test_the_ingest_lane_is_started_on_demand() -> None:
    assert codes(compose(chat=engine()), given=[deployment(lane="ingest")]) == ["lane-on-demand"]
    assert not codes(compose(chat=engine(profiles=["ingest"])), given=[deployment(lane="ingest")])


def test_the_drain_limit_is_the_routing_files() -> None:
    gateway = {
        "image": "signalbox-gateway:0.1.0",
        "restart": "unless-stopped",
        "stop_grace_period": "60s",
        "command": ["gateway", "serve"],
        "healthcheck": {"test": ["CMD", "true"]},
    }

    for drain_s, expected in ((30.0, []), (90.0, ["stop-grace"])):
        problems = check([compose(gateway=gateway)], read(routes(drain_s=drain_s)))
        assert [p.code for p in problems] == expected


def test_a_shape_that_is_not_known_is_refused() -> None:
    with pytest.raises(Unusable, match="shape 2"):
        read(routes(shape=2))


def test_each_code_of_the_routing_is_shown_here() -> None:
    text = Path(__file__).read_text().split("LLAMA = ")[1]

    assert not [code for code in ROUTED_CODES if code not in text]
