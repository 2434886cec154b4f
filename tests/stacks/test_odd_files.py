"""Odd files: whatever stands where something else belongs, the checker answers and never raises."""

from __future__ import annotations

from typing import Any

import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from common.source import read
from serving.stacks.check import check
from serving.stacks.compose import stack
from serving.stacks.routing import read as read_routing
from tests.stacks.files import deployment, engine, routes

KEYS = sorted(
    {
        *engine(),
        *("environment", "env_file", "deploy", "gpus", "depends_on", "profiles", "runtime"),
        *("build", "entrypoint", "network_mode", "x-slot", "x-gpu-memory", "container_name"),
        *("restart", "privileged", "cpus"),
    }
)
SCALARS: st.SearchStrategy[Any] = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 70000),
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from(["", "all", "0", "${X:-0}", "host", "8000:8000", "vllm serve", ":", "a=b"]),
    st.sampled_from(["CUDA_VISIBLE_DEVICES=x", "nvidia.com/gpu=", "--max-model-len", "[::1]:80"]),
)
KEY_WORDS = st.sampled_from(
    [
        *("driver", "count", "device_ids", "capabilities", "resources", "reservations"),
        *("devices", "test", "interval", "start_period", "retries", "source", "target"),
        *("published", "path", "condition"),
    ]
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(KEY_WORDS, inner, max_size=3)
    ),
    max_leaves=8,
)


@settings(max_examples=300, deadline=None)
@given(st.dictionaries(st.sampled_from(KEYS), VALUES, max_size=4), VALUES)
def test_a_service_of_any_shape_is_answered(odd: dict[str, Any], devices: Any) -> None:
    reserved = {"deploy": {"resources": {"reservations": {"devices": devices}}}}
    services = {"one": {**engine(), **odd}, "two": {**engine(), **reserved}, "three": devices}
    text = yaml.safe_dump({"services": services})

    routing = read_routing(routes(deployment(tier="interactive", keyed=True)))
    found = check([stack(read(text.encode(), "odd.yaml"), {})], routing)

    assert all(problem.place.file in ("odd.yaml", "config.yaml") for problem in found)
