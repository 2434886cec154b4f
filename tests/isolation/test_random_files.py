"""The same proof from random files: through the whole loader, and against the router."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml
from hypothesis import event, given, settings

from gateway.config.config import Config, Deployment
from gateway.config.isolation import reaches
from gateway.config.load import load_text
from tests.isolation.build import codes
from tests.isolation.strategies import configs, places, swaps, tier_of
from tests.isolation.walk import walk

PAGE = (Path(__file__).parents[2] / "docs" / "isolation.md").read_text()
TOLD = frozenset(re.findall(r"^\| `([a-z-]+)`", PAGE, re.MULTILINE))


def written(made: Config) -> bytes:
    """A Config as a person would write it."""
    file = {
        "model_list": [_entry(d) for d in made.deployments],
        "router_settings": {
            "model_group_alias": {a.name: a.group for a in made.aliases.values()},
            "fallbacks": [{key: list(to)} for key, to in made.fallbacks.items()],
            "context_window_fallbacks": [
                {key: list(to)} for key, to in made.context_window_fallbacks.items()
            ],
            "default_fallbacks": list(made.default_fallbacks),
            "max_fallbacks": made.max_fallbacks,
        },
        "general_settings": {"master_key": "os.environ/GATEWAY_MASTER_KEY"},
        "gateway_settings": {
            "tiers": {
                tier: {"models": [g for g, t in made.tiers.items() if t == tier]}
                for tier in dict.fromkeys(made.tiers.values())
            },
            "task_pins": {
                p.task: {"model": p.group, "fallbacks": p.fallbacks} for p in made.pins.values()
            },
            "overflow_max_parallel": made.overflow_max_parallel,
            "slots": {name: {"url": slot.url} for name, slot in made.slots.items()},
        },
    }
    return yaml.safe_dump(_without_none(file), sort_keys=False).encode()


def _entry(d: Deployment) -> dict[str, Any]:
    caps = ("weight", "order", "rpm", "max_parallel_requests")
    return {
        "model_name": d.group,
        "litellm_params": {
            "model": f"hosted_vllm/{d.served_name}",
            "api_base": d.api_base,
            **{name: getattr(d, name) for name in caps},
        },
        "model_info": {name: getattr(d, name) for name in ("slot", "recipe", "swap")},
    }


def _without_none(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _without_none(v) for k, v in value.items() if v is not None}
    return [_without_none(v) for v in value] if isinstance(value, list) else value


@settings(max_examples=100, deadline=None)
@given(configs())
def test_a_random_file_gets_the_same_isolation_problems_as_its_values(made: Config) -> None:
    loaded = load_text(written(made), "config.yaml", {}, check_env=False)

    errors = [p for p in loaded.problems if p.severity == "error" and p.code not in TOLD]
    assert not errors, "the random files break isolation rules and no others"
    assert sorted(p.code for p in loaded.problems if p.code in TOLD) == sorted(codes(made))


@settings(max_examples=200, deadline=None)
@given(configs(max_groups=4))
def test_what_a_file_without_errors_can_reach_is_what_its_router_does(made: Config) -> None:
    loaded = load_text(written(made), "config.yaml", {}, check_env=False)
    if loaded.config is None:
        event("refused")
        return
    event("served")

    can = walk(loaded.config, overflow=True, dialects=("chat", "completions"))

    assert {(r.name, r.deployment) for r in reaches(loaded.config)} == set(can)
    _is_isolated(loaded.config, {key for key, _ in can.items()})


def _is_isolated(served: Config, can: set[tuple[str, str]]) -> None:
    """No background, auxiliary or task name where people are served but by bounded overflow."""
    by_id = {d.id: d for d in served.deployments}
    own = [d for d in served.deployments if served.tiers[d.group] == "interactive"]
    guarded = frozenset[str]().union(*(places(d) for d in own))
    people = {d for name, d in can if tier_of(name, served) == "interactive"}
    others = [(n, by_id[d]) for n, d in can if tier_of(n, served) not in ("interactive", "burst")]
    inside = {d.id: d for _, d in others if places(d) & guarded}
    assert not inside.keys() & people
    for place in guarded:
        caps = [d for d in inside.values() if place in places(d)]
        assert all(d.rpm and d.max_parallel_requests for d in caps)
        total = sum(d.max_parallel_requests or 0 for d in caps)
        assert total <= served.overflow_max_parallel
    for name, d in others:
        if swaps(d, name, served):
            assert not any(p.slot == d.slot and p.recipe != d.recipe for p in own)
