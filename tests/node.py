"""Small files for tests: groups of scripted engines, as the YAML that an operator writes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import yaml

from tests import markers
from tests.engine import FakeEngine

MASTER_KEY = markers.key("master")
TESTER_KEY = markers.key("tester")
ENGINE_KEY = markers.key("engine")
ENVIRON = {
    "GATEWAY_MASTER_KEY": MASTER_KEY,
    "KEY_TESTER": TESTER_KEY,
    "KEY_ENGINE": ENGINE_KEY,
}
EVERY_API = ["chat", "completions", "embeddings", "rerank", "responses", "messages", "count_tokens"]


@dataclass(frozen=True)
class Elsewhere:
    """An engine that somebody else runs, such as a real one."""

    name: str
    url: str


Engine = FakeEngine | Elsewhere


@dataclass(frozen=True)
class Member:
    """One deployment: an engine, what goes under `litellm_params`, and its `model_info`."""

    engine: Engine
    params: Mapping[str, Any] = field(default_factory=dict)
    info: Mapping[str, Any] = field(default_factory=dict)

    def entry(self, group: str) -> dict[str, Any]:
        """The `model_list` entry."""
        params = {
            "model": f"hosted_vllm/{self.engine.name}-model",
            "api_base": self.engine.url,
            "api_key": "os.environ/KEY_ENGINE",
            **self.params,
        }
        info = {"id": self.engine.name, "apis": EVERY_API, **self.info}
        return {
            "model_name": group,
            "litellm_params": {k: v for k, v in params.items() if v is not None},
            "model_info": {k: v for k, v in info.items() if v is not None},
        }


def member(engine: Engine, info: Mapping[str, Any] | None = None, **params: Any) -> Member:
    """A deployment of an engine, which speaks every dialect unless `info` says else."""
    return Member(engine, params, info or {})


Members = Engine | Member | Sequence[Engine | Member]


@dataclass(frozen=True)
class Node:
    """A file. Every group is interactive unless `tiers` names it; one client key opens all."""

    groups: Mapping[str, Members]
    tiers: Mapping[str, Sequence[str]] = field(default_factory=dict)
    rules: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # by tier
    router: Mapping[str, Any] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    pins: Mapping[str, Any] = field(default_factory=dict)
    aliases: Mapping[str, Any] = field(default_factory=dict)
    keys: bool = True  # False: a file without any key

    def members(self) -> Iterator[tuple[str, Member]]:
        """Every group's deployments, in order."""
        for group, given in self.groups.items():
            for one in given if isinstance(given, Sequence) else [given]:
                yield group, one if isinstance(one, Member) else member(one)

    def engines(self) -> list[FakeEngine]:
        """The scripted engines in the file, each once."""
        found = [one.engine for _, one in self.members()]
        return list({id(e): e for e in found if isinstance(e, FakeEngine)}.values())

    def yaml(self, activity: str) -> bytes:
        """The file's text; engines must have their ports."""
        tiers: dict[str, Any] = {name: {"models": list(m)} for name, m in self.tiers.items()}
        placed = {name for names in self.tiers.values() for name in names}
        rest = [name for name in self.groups if name not in placed]
        if rest:
            tiers.setdefault("interactive", {"models": []})["models"] += rest
        for tier, rule in self.rules.items():
            tiers[tier] |= rule
        grants = ["interactive", "auxiliary", "background"]
        data = {
            "model_list": [one.entry(group) for group, one in self.members()],
            "router_settings": {
                **({"model_group_alias": dict(self.aliases)} if self.aliases else {}),
                **self.router,
            },
            "general_settings": {"master_key": "os.environ/GATEWAY_MASTER_KEY"}
            if self.keys
            else {},
            "gateway_settings": {
                "tiers": tiers,
                "task_pins": dict(self.pins),
                "client_keys": [{"name": "tester", "key": "os.environ/KEY_TESTER", "tiers": grants}]
                if self.keys
                else [],
                "activity": {"path": activity},
                **self.settings,
            },
        }
        return yaml.safe_dump(data, sort_keys=False).encode()
