"""One `model_list` entry on its way to a Deployment: where it stands, and how it is reached."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from common.problems import Problem
from common.source import Path, Source
from gateway.config import known, providers
from gateway.config.env import Resolved, deployment_name


@dataclass(frozen=True, slots=True, kw_only=True)
class Provider:
    """How a deployment is reached: LiteLLM's prefix, and the name that the engine serves."""

    prefix: str
    served_name: str
    relayed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One entry on its way: where it stands, and what it holds."""

    path: Path
    source: Source
    resolved: Resolved

    @property
    def name(self) -> str:
        return deployment_name(self.source.data, self.path)

    def param(self, key: str) -> Path:
        return (*self.path, "litellm_params", key)

    def info(self, key: str) -> Path:
        return (*self.path, "model_info", key)

    @property
    def on_slot(self) -> bool:
        """True if the entry names a slot: its address is a lease's, and never the provider's."""
        data = self.resolved.data["model_list"][self.path[1]]
        info = data.get("model_info") if isinstance(data, dict) else None
        return isinstance(info, dict) and bool(info.get("slot"))

    def error(self, path: Path, code: str, message: str) -> Problem:
        return Problem(self.source.value(path), "error", code, message)

    def warning(self, path: Path, code: str, message: str) -> Problem:
        return Problem(self.source.value(path), "warning", code, message)


def provider(entry: Entry, params: Mapping[str, Any], problems: list[Problem]) -> Provider | None:
    """Split `provider/served-name`; None with its problem where LiteLLM knows no such provider."""
    model, said = params.get("model"), params.get("custom_llm_provider")
    if not isinstance(model, str) or not model:
        return None  # its type is another check's
    if entry.param("model") in entry.resolved.unset:
        return Provider(prefix=model, served_name=model, relayed=True)
    prefix, slash, served = model.partition("/")
    if isinstance(said, str) and said:
        served = served if prefix == said else model
        prefix, slash = said, "/"
    names = known.litellm_keys().providers | providers.OPENAI_WIRE
    at = entry.param("model" if not said else "custom_llm_provider")
    if not slash or not prefix:
        problems.append(
            entry.error(
                at,
                "no-provider",
                f"model `{model}` of {entry.name} names no provider: write provider/served-name,"
                f" such as hosted_vllm/{model.lstrip('/')}",
            )
        )
        return None
    if prefix not in names:
        said_near = known.did_you_mean(prefix, names)
        problems.append(
            entry.error(at, "unknown-provider", f"LiteLLM knows no provider `{prefix}`{said_near}")
        )
        return None
    if not served:
        problems.append(entry.error(at, "no-provider", f"model `{model}` has no served name"))
        return None
    local = prefix in providers.OPENAI_WIRE
    if prefix in providers.OPENAI_ITSELF and not (params.get("api_base") or entry.on_slot):
        local = False
    return Provider(prefix=prefix, served_name=served, relayed=local)
