"""Nothing that a client sends steers the library: each row with a trap that must see nothing.

Relayed deployments refuse the same names; here the provider is a bridged one, whose calls pass
through a library that would honour most of them.
"""

from __future__ import annotations

from typing import Any

import pytest

from gateway.bridge.named import split
from gateway.errors import BadRequest
from tests.bridge.conftest import Start
from tests.bridge.test_providers import provider
from tests.client import PATHS, question
from tests.engine import FakeEngine
from tests.node import Node

TRAP = "TRAP"  # stands for the trap's address
# What the stock proxy was seen to do with each is in the comment.
REFUSED: dict[str, Any] = {
    "api_base": TRAP,
    "base_url": TRAP,
    "user_config": {"model_list": []},
    "model_list": [{"model_name": "x", "litellm_params": {"model": "openai/x", "api_base": TRAP}}],
    "fallbacks": [{"model": "spare", "api_base": TRAP}],  # honoured, parameters too
    "api_key": "sk-client",  # honoured: sent upstream in place of ours
    "num_retries": 5,  # honoured
    "custom_llm_provider": "openai",  # honoured
    "extra_headers": {"x-evil": "1"},  # honoured
    "specific_deployment": True,  # honoured
    "mock_response": "hi",
    "mock_tool_calls": [],
    "mock_testing_fallbacks": True,
    "mock_timeout": True,
    "litellm_metadata": {"tags": ["x"]},
    "_target_order": 1,
    "fallback_depth": 1,
    "model_info": {"id": "x"},
    "callbacks": ["x"],
    "no-log": True,
    "litellm_params": {"api_base": TRAP},
    "context_window_fallbacks": [{"chat": ["spare"]}],
    "extra_body": {"api_base": TRAP},
    "drop_params": True,
    "additional_drop_params": ["messages"],
    "deployment_id": "spare",
    "litellm_call_id": "x",
    "litellm_logging_obj": {},
    "default_headers": {"x-evil": "1"},
    "api_version": "x",
    "aws_sts_endpoint": TRAP,
    "vertex_credentials": "{}",
}
# Of no meaning to a provider's API: 400, or dropped where the file says drop_params.
STRANGE: dict[str, Any] = {
    "timeout": 0.001,  # honoured
    "stream_timeout": 0.001,  # honoured
    "request_timeout": 0.001,
    "tags": ["x"],  # honoured with tag filtering
    "weight": 9,
    "rpm": 1,
    "guardrails": ["x"],
    "model_id": "spare",  # passed to the engine
    "unknown_field": 1,  # passed to the engine
    "client": {},
    "acompletion": False,
    "shared_session": {},
    "logger_fn": "x",
    "headers": {"x-evil": "1"},
    "organization": "org-evil",
    "input_cost_per_token": 1.0,
    "cache": {"no-cache": True},
    "caching": True,
    "ssl_verify": False,
    "prompt_id": "x",
    "merge_reasoning_content_in_choices": True,
    "allowed_openai_params": ["x"],
    "rust": True,
    "max_retries": 9,
    "hf_model_name": "x",
    "model_response": {},
}


def pointed(value: Any, url: str) -> Any:
    """The value with the trap's address in place."""
    if isinstance(value, dict):
        return {k: pointed(v, url) for k, v in value.items()}
    if isinstance(value, list):
        return [pointed(v, url) for v in value]
    return url if value == TRAP else value


@pytest.mark.parametrize("name", list(REFUSED))
async def test_a_steering_field_is_refused(bridged: Start, name: str) -> None:
    engine, trap = FakeEngine("p"), FakeEngine("trap")

    async with trap, bridged(Node({"chat": provider(engine, "groq/x")})) as g:
        got = await g.client.ask("chat", **{name: pointed(REFUSED[name], trap.url)})

    assert got.status == 400
    assert name in got.json["error"]["message"]
    assert not trap.connections
    assert not engine.requests


@pytest.mark.parametrize("name", list(STRANGE))
@pytest.mark.parametrize("model", ["groq/x", "nebius/x"])
async def test_a_strange_field_is_dropped_or_refused(bridged: Start, name: str, model: str) -> None:
    strict, drops = FakeEngine("strict"), FakeEngine("drops")
    node = Node(
        {
            "chat": provider(strict, model),
            "drops": provider(drops, model, drop_params=True),
        }
    )

    body = {**question("chat", stream=True), name: STRANGE[name]}

    async with bridged(node) as g:
        refused = await g.client.post(PATHS["chat"], body)
        dropped = await g.client.post(PATHS["chat"], {**body, "model": "drops"})

    assert refused.status == 400
    assert refused.json["error"]["code"] == "unsupported_parameter"
    assert not strict.requests
    assert dropped.status == 200
    [sent] = drops.requests
    assert name not in sent.json
    assert sent.header("x-evil") is None
    assert sent.header("authorization") == "Bearer sk-KEYMARK7c1d-engine"


@pytest.mark.parametrize(
    "model", ["p", "nebius/some/model", "groq/x", "openai/gpt-4o", "chat@127.0.0.1:1/x"]
)
async def test_ids_and_raw_names_are_no_names(bridged: Start, model: str) -> None:
    engine = FakeEngine("p")

    async with bridged(Node({"chat": provider(engine, "groq/x")})) as g:
        got = await g.client.ask(model)

    assert got.status in (400, 403, 404)
    assert not engine.requests


@pytest.mark.parametrize(
    "headers",
    [
        {"x-litellm-timeout": "0.001"},
        {"x-litellm-num-retries": "5"},
        {"x-litellm-tags": "a"},
        {"x-litellm-api-base": "http://127.0.0.1:1"},
        {"Authorization-Override": "x"},
    ],
)
async def test_headers_steer_nothing(bridged: Start, headers: dict[str, str]) -> None:
    engine = FakeEngine("p", status=503)

    async with bridged(Node({"chat": provider(engine, "groq/x")}, router={"num_retries": 0})) as g:
        got = await g.client.ask("chat", headers=headers)

    assert got.status == 503
    assert len(engine.requests) == 1
    assert not {name for name, _ in engine.requests[0].headers} & {n.lower() for n in headers}


def test_named_parameters_and_declared_extras_are_all_that_passes() -> None:
    fields = {"messages": [], "temperature": 1, "top_k": 2, "own": 3, "evil": 4, "model": "m"}

    named, extras = split("chat", fields, fixed=["own"], drop=True)

    assert named == {"messages": [], "temperature": 1}
    assert extras == {"top_k": 2, "own": 3}
    with pytest.raises(BadRequest, match="evil"):
        split("chat", fields, fixed=["own"], drop=False)
