"""One `model_list` entry into one Deployment, with every problem of its own."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from common.problems import Place, Problem
from common.source import Path, Source
from gateway.config import addresses, known, providers, schema, shapes
from gateway.config.config import Deployment, Dialect, Mode, Upstream
from gateway.config.env import PREFIX, Resolved, deployment_name
from gateway.config.params import DEFAULTS

# Keys that engines without one are given; anything else that is written out is taken for a secret.
_NO_KEY: Final = frozenset(
    {"none", "null", "empty", "dummy", "na", "n/a", "no-key", "no-key-needed", "not-needed"}
    | {"sk-no-key-required", "sk-dummy", "sk-none", "local", "ollama", "lm-studio", "sk-local"}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Shared:
    """What the settings blocks say for every deployment that does not say else."""

    timeout_s: float | None = None
    stream_timeout_s: float | None = None
    stream_idle_timeout_s: float = 120.0
    cooldown_s: float = 5.0
    allowed_fails: int = 3
    max_parallel_requests: int | None = None
    drop_params: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Provider:
    """How a deployment is reached: LiteLLM's prefix, and the name that the engine serves."""

    prefix: str
    served_name: str
    relayed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class _Entry:
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

    def error(self, path: Path, code: str, message: str) -> Problem:
        return Problem(self.source.value(path), "error", code, message)

    def warning(self, path: Path, code: str, message: str) -> Problem:
        return Problem(self.source.value(path), "warning", code, message)


def build(
    source: Source, resolved: Resolved, shared: Shared
) -> tuple[tuple[Deployment, ...], list[Problem]]:
    """Every deployment of the file that could be read, and every problem of the entries."""
    problems: list[Problem] = []
    found: list[tuple[Path, Deployment]] = []
    entries = resolved.data.get("model_list")
    if not isinstance(entries, list) or not entries:
        return (), _no_deployments(source, entries)
    for index, data in enumerate(entries):
        entry = _Entry(path=("model_list", index), source=source, resolved=resolved)
        deployment = _deployment(entry, data, shared, problems)
        if deployment is not None:
            found.append((entry.info("id"), deployment))
    return _with_ids(source, found, problems), problems


def _no_deployments(source: Source, entries: Any) -> list[Problem]:
    at = source.place(("model_list",))
    if entries is None and "model_list" not in source.data:
        said = "there is no model_list, so there is nothing to route to"
        return [Problem(at, "error", "missing-key", said)]
    if entries is None or isinstance(entries, list):
        return [Problem(at, "error", "no-deployments", "model_list is empty: name a deployment")]
    said = "`model_list` must be a list: write `- model_name: ...` for each deployment"
    return [Problem(source.value(("model_list",)), "error", "wrong-type", said)]


def _deployment(
    entry: _Entry, data: Any, shared: Shared, problems: list[Problem]
) -> Deployment | None:
    raw = data.get("litellm_params") if isinstance(data, dict) else None
    params: Mapping[str, Any] = raw if isinstance(raw, dict) else {}
    provider = _provider(entry, params, problems)
    defaults = {k: v for k, v in params.items() if k in DEFAULTS and v is not None}
    fields = {k: v for k, v in params.items() if k not in DEFAULTS}
    block, found = shapes.fit(
        schema.Entry,
        {**data, "litellm_params": fields} if isinstance(raw, dict) else data,
        entry.path,
        source=entry.source,
        resolved=entry.resolved,
        bridged=provider is not None and not provider.relayed,
    )
    problems += found
    if block is None or provider is None:
        return None
    problems += _faults(entry, block, provider)
    merged = _merged(entry, block, shared, provider)
    return replace(merged, defaults=defaults, litellm_params=_for_bridge(params, shared))


def _for_bridge(params: Mapping[str, Any], shared: Shared) -> Mapping[str, Any]:
    given = {k: v for k, v in params.items() if v is not None}
    return {"drop_params": shared.drop_params, **given}


def _provider(entry: _Entry, params: Mapping[str, Any], problems: list[Problem]) -> Provider | None:
    """Split `provider/served-name`; None with its problem where LiteLLM knows no such provider."""
    model, said = params.get("model"), params.get("custom_llm_provider")
    if not isinstance(model, str) or not model:
        return None  # its type is another check's
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
    if prefix in providers.OPENAI_ITSELF and not params.get("api_base"):
        local = False
    return Provider(prefix=prefix, served_name=served, relayed=local)


def _merged(entry: _Entry, block: schema.Entry, shared: Shared, provider: Provider) -> Deployment:
    params, info = block.litellm_params, block.model_info
    mode: Mode = info.mode or "chat"
    engine = providers.SPELLINGS.get(info.engine or "", info.engine)
    relays = _relays(info, engine, mode, provider)
    api_base, upstream = _address(entry, params, provider)
    return Deployment(
        id=info.id or "",
        group=block.model_name,
        place=entry.source.values[entry.path],
        provider=provider.prefix,
        served_name=provider.served_name,
        mode=mode,
        upstream=upstream,
        api_base=api_base,
        api_key=None if entry.param("api_key") in entry.resolved.unset else params.api_key,
        engine=engine,
        lane=info.lane,
        relays=relays,
        bridges=providers.BRIDGES[mode] - relays,
        weight=params.weight,
        order=1 if params.order is None else params.order,
        rpm=params.rpm,
        tpm=params.tpm,
        max_parallel_requests=params.max_parallel_requests or shared.max_parallel_requests,
        timeout_s=_timeout(params.timeout, params.request_timeout, shared.timeout_s),
        stream_timeout_s=_stream_timeout(params.stream_timeout, shared.stream_timeout_s),
        stream_idle_timeout_s=info.stream_idle_timeout_s or shared.stream_idle_timeout_s,
        cooldown_s=_first(params.cooldown_time, info.cooldown_time, shared.cooldown_s),
        allowed_fails=_first(info.allowed_fails, shared.allowed_fails),
        max_input_tokens=info.max_input_tokens,
        max_output_tokens=info.max_output_tokens,
        drop_params=frozenset(params.additional_drop_params or ()),
        fixed=params.extra_body or {},
        accepts_prefix=bool(info.accepts_prefix),
    )


def _first(*values: Any) -> Any:
    return next(value for value in values if value is not None)


def _timeout(*values: float | None) -> float | None:
    """The first that is given; 0 means no limit."""
    return next((value for value in values if value is not None), None) or None


def _stream_timeout(*values: float | None) -> float | None:
    """As `_timeout`, but None leaves it to `timeout`: so a limit of 0 is infinity."""
    found = next((value for value in values if value is not None), None)
    return math.inf if found == 0 else found


def _relays(
    info: schema.ModelInfo, engine: str | None, mode: Mode, provider: Provider
) -> frozenset[Dialect]:
    if not provider.relayed:
        return frozenset()
    if info.apis is not None:
        return frozenset(info.apis)
    spoken = providers.ENGINES.get(engine or "", providers.WITHOUT_ENGINE)[mode]
    if provider.prefix == "text-completion-openai":  # LiteLLM's word for the old API alone
        return spoken & providers.WITHOUT_ENGINE["completion"]
    return spoken


def _address(
    entry: _Entry, params: schema.LiteLLMParams, provider: Provider
) -> tuple[str | None, Upstream]:
    """What is called, and which upstream that is. A variable without a value is one of its own."""
    path = entry.param("api_base")
    if path in entry.resolved.unset:
        return None, Upstream(str(params.api_base), 0)
    if params.api_base is None or list(addresses.faults(params.api_base, relayed=False)):
        return params.api_base, Upstream(provider.prefix, 0)
    return addresses.clean(params.api_base), addresses.upstream(params.api_base)


def _with_ids(
    source: Source, found: list[tuple[Path, Deployment]], problems: list[Problem]
) -> tuple[Deployment, ...]:
    """Ids for those without: group@host:port/served-name, numbered from the second on."""
    taken: dict[str, Place] = {}
    counts: Counter[str] = Counter()
    done: list[Deployment] = []
    for path, deployment in found:
        made = f"{deployment.group}@{deployment.upstream}/{deployment.served_name}"
        if not deployment.id:
            counts[made] += 1
            made += f"#{counts[made]}" if counts[made] > 1 else ""
        named = replace(deployment, id=deployment.id or made)
        at = source.value(path)
        if named.id in taken:
            said = f"the id `{named.id}` is also at line {taken[named.id].line}: health and caps"
            problems.append(
                Problem(
                    at, "error", "duplicate-id", f"{said} are kept by id, so each needs its own"
                )
            )
        taken.setdefault(named.id, at)
        done.append(named)
    return tuple(done)


def _faults(entry: _Entry, block: schema.Entry, provider: Provider) -> Iterator[Problem]:
    """What is wrong with values that are of the right type."""
    yield from _name_faults(entry, block)
    yield from _address_faults(entry, block, provider)
    yield from _key_faults(entry, block, provider)
    yield from _info_faults(entry, block, provider)
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


def _name_faults(entry: _Entry, block: schema.Entry) -> Iterator[Problem]:
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


def _address_faults(entry: _Entry, block: schema.Entry, provider: Provider) -> Iterator[Problem]:
    at, api_base = entry.param("api_base"), block.litellm_params.api_base
    if at in entry.resolved.unset:
        return
    if api_base is not None:
        for code, message in addresses.faults(api_base, relayed=provider.relayed):
            yield entry.error(at, code, f"{message} ({entry.name})")
    elif provider.relayed or provider.prefix in providers.NEEDS_ADDRESS:
        yield entry.error(
            entry.param("model"),
            "missing-api-base",
            f"{entry.name} has no api_base, and {provider.prefix}/ has no address of its own:"
            f" write api_base: {PREFIX}NAME",
        )


def _key_faults(entry: _Entry, block: schema.Entry, provider: Provider) -> Iterator[Problem]:
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


def _info_faults(entry: _Entry, block: schema.Entry, provider: Provider) -> Iterator[Problem]:
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
