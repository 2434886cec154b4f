"""Rules for one deployment: values that are of the right type, and still wrong."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from common.problems import Problem
from gateway.config import addresses, known, providers, schema
from gateway.config.entry import Entry, Provider
from gateway.config.env import PREFIX

# Keys that engines without one are given; anything else that is written out is taken for a secret.
_NO_KEY: Final = frozenset(
    {"none", "null", "empty", "dummy", "na", "n/a", "no-key", "no-key-needed", "not-needed"}
    | {"sk-no-key-required", "sk-dummy", "sk-none", "local", "ollama", "lm-studio", "sk-local"}
)

# Names of models that write no text. Nothing is decided by them: the operator is told.
_BY_NAME: Final = re.compile(r"(?P<rerank>rerank)|embed|\bbge-|\be5-|\bgte-|minilm")


def faults(entry: Entry, block: schema.Entry, provider: Provider) -> Iterator[Problem]:
    """What is wrong with values that are of the right type."""
    yield from _name_faults(entry, block)
    yield from _address_faults(entry, block, provider)
    yield from _key_faults(entry, block, provider)
    yield from _info_faults(entry, block, provider)
    yield from _mode_faults(entry, block)
    params = block.litellm_params
    both = (params.timeout, params.request_timeout)
    if None not in both and both[0] != both[1]:
        yield entry.error(
            entry.param("request_timeout"),
            "conflict",
            f"timeout and request_timeout of {entry.name} differ ({both[0]:g} and {both[1]:g}):"
            " keep one",
        )
    for i, name in enumerate(params.additional_drop_params or ()):
        if provider.relayed and any(mark in name for mark in ".[*"):
            yield entry.error(
                (*entry.param("additional_drop_params"), i),
                "nested-drop",
                f"`{name}` is a nested path: only whole top-level fields are dropped on a relayed"
                " deployment",
            )


def _mode_faults(entry: Entry, block: schema.Entry) -> Iterator[Problem]:
    """LiteLLM sends any request to any deployment; here an entry without a mode serves chat."""
    names = f"{block.model_name} {block.litellm_params.model}".lower()
    if block.model_info.mode is not None or (found := _BY_NAME.search(names)) is None:
        return
    mode = "rerank" if found["rerank"] else "embedding"
    said = f"{entry.name} is taken for chat, and its name says {mode}: write model_info.mode"
    yield entry.warning((*entry.path, "model_name"), "mode-by-name", f"{said}: {mode}")


def _name_faults(entry: Entry, block: schema.Entry) -> Iterator[Problem]:
    name, at = block.model_name, (*entry.path, "model_name")
    if "*" in name or "*" in block.litellm_params.model:
        path = at if "*" in name else entry.param("model")
        yield entry.error(
            path,
            "wildcard",
            "wildcard names are not served: name each model, so that its reach can be proven",
        )
    if name.startswith("task/"):
        said = f"`{name}` begins with task/, which asks for a pinned task: choose another name"
        yield entry.error(at, "reserved-name", said)


def _address_faults(entry: Entry, block: schema.Entry, provider: Provider) -> Iterator[Problem]:
    at, api_base = entry.param("api_base"), block.litellm_params.api_base
    if at in entry.resolved.unset or (api_base is None and entry.on_slot):
        return
    if api_base is not None:
        for code, message in addresses.faults(api_base, relayed=provider.relayed):
            yield entry.error(at, code, f"{message} ({entry.name})")
    elif entry.param("model") not in entry.resolved.unset and (
        provider.relayed or provider.prefix in providers.NEEDS_ADDRESS
    ):
        yield entry.error(
            entry.param("model"),
            "missing-api-base",
            f"{entry.name} has no api_base, and {provider.prefix}/ has no address of its own:"
            f" write api_base: {PREFIX}NAME",
        )


def _key_faults(entry: Entry, block: schema.Entry, provider: Provider) -> Iterator[Problem]:
    at, key = entry.param("api_key"), block.litellm_params.api_key
    if key is None and provider.prefix in ("openai", "text-completion-openai"):
        if provider.relayed:
            yield entry.warning(
                entry.param("model"),
                "no-api-key",
                f"{entry.name} is called without a key; the stock proxy refuses openai/ so: write"
                " hosted_vllm/, or api_key: none",
            )
        else:
            yield entry.error(
                entry.param("model"),
                "missing-api-key",
                f"{entry.name} calls OpenAI itself and has no api_key: write api_key:"
                f" {PREFIX}NAME, or an api_base if it is a server of yours",
            )
    literal = at not in entry.resolved.variables and not re.search(r"\$|\benv", key or "")
    if key and literal and key.lower() not in _NO_KEY:
        yield entry.warning(
            at,
            "literal-key",
            f"api_key of {entry.name} is written out: if it is a secret, write {PREFIX}NAME",
        )


def _info_faults(entry: Entry, block: schema.Entry, provider: Provider) -> Iterator[Problem]:
    info = block.model_info
    if info.engine and providers.SPELLINGS.get(info.engine, info.engine) not in providers.ENGINES:
        near = known.did_you_mean(info.engine, providers.ENGINES)
        yield entry.error(
            entry.info("engine"),
            "unknown-engine",
            f"engine `{info.engine}` is not known{near}; leave engine out, and say what it speaks"
            " in model_info.apis",
        )
    if info.lane and info.mode != "embedding":
        yield entry.error(
            entry.info("lane"), "lane-mode", "lanes are for embeddings: write mode: embedding"
        )
    if info.apis is not None and not provider.relayed:
        yield entry.warning(
            entry.info("apis"),
            "no-effect",
            f"apis has no effect on {entry.name}: {provider.prefix}/ is bridged through LiteLLM",
        )
