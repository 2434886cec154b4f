"""One `model_list` entry into one Deployment, with every problem of its own."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from common.problems import Place, Problem
from common.source import Path, Source
from gateway.config import addresses, entry_rules, providers, schema, shapes, slot_rules
from gateway.config.config import Deployment, Dialect, Mode, Upstream
from gateway.config.entry import Entry, Provider, provider
from gateway.config.env import PREFIX, Resolved
from gateway.config.params import DEFAULTS


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
        entry = Entry(path=("model_list", index), source=source, resolved=resolved)
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
    entry: Entry, data: Any, shared: Shared, problems: list[Problem]
) -> Deployment | None:
    raw = data.get("litellm_params") if isinstance(data, dict) else None
    params: Mapping[str, Any] = raw if isinstance(raw, dict) else {}
    reached = provider(entry, params, problems)
    defaults = {k: v for k, v in params.items() if k in DEFAULTS and v is not None}
    fields = {k: v for k, v in params.items() if k not in DEFAULTS}
    block, found = shapes.fit(
        schema.Entry,
        {**data, "litellm_params": fields} if isinstance(raw, dict) else data,
        entry.path,
        source=entry.source,
        resolved=entry.resolved,
        bridged=reached is not None and not reached.relayed,
    )
    problems += found
    if block is None or reached is None:
        return None
    problems += entry_rules.faults(entry, block, reached)
    problems += slot_rules.faults(entry, block, reached)
    merged = _merged(entry, block, shared, reached)
    return replace(merged, defaults=defaults, litellm_params=_for_bridge(params, shared))


def _for_bridge(params: Mapping[str, Any], shared: Shared) -> Mapping[str, Any]:
    given = {k: v for k, v in params.items() if v is not None}
    return {"drop_params": shared.drop_params, **given}


def _merged(entry: Entry, block: schema.Entry, shared: Shared, reached: Provider) -> Deployment:
    params, info = block.litellm_params, block.model_info
    mode: Mode = info.mode or "chat"
    engine = providers.SPELLINGS.get(info.engine or "", info.engine)
    relays = _relays(info, engine, mode, reached)
    api_base, upstream = _address(entry, block, reached)
    return Deployment(
        id=info.id or "",
        group=block.model_name,
        place=entry.source.values[entry.path],
        provider=reached.prefix,
        served_name=reached.served_name,
        mode=mode,
        upstream=upstream,
        api_base=api_base,
        api_key=None if entry.param("api_key") in entry.resolved.unset else params.api_key,
        key_variable=_variable(entry.source.texts.get(entry.param("api_key"), "")),
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
        slot=info.slot,
        recipe=info.recipe,
        variant=info.variant,
        swap=info.swap,
        roi_profile=info.roi_profile,
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


def _variable(text: str) -> str | None:
    """The name in `os.environ/NAME`; None for a value that is written out."""
    return text.removeprefix(PREFIX) if text.startswith(PREFIX) else None


def _relays(
    info: schema.ModelInfo, engine: str | None, mode: Mode, reached: Provider
) -> frozenset[Dialect]:
    if not reached.relayed:
        return frozenset()
    if info.apis is not None:
        return frozenset(info.apis)
    spoken = providers.ENGINES.get(engine or "", providers.WITHOUT_ENGINE)[mode]
    if reached.prefix == "text-completion-openai":  # LiteLLM's word for the old API alone
        return spoken & providers.WITHOUT_ENGINE["completion"]
    return spoken


def _address(entry: Entry, block: schema.Entry, reached: Provider) -> tuple[str | None, Upstream]:
    """What is called, and which upstream that is. A variable without a value is one of its own."""
    params, info, path = block.litellm_params, block.model_info, entry.param("api_base")
    if info.slot is not None:
        return None, Upstream.on_slot(info.slot, info.recipe or "")
    if path in entry.resolved.unset:
        return None, Upstream(str(params.api_base), 0)
    if params.api_base is None or list(addresses.faults(params.api_base, relayed=False)):
        return params.api_base, Upstream(reached.prefix, 0)
    return addresses.clean(params.api_base), addresses.upstream(params.api_base)


def _with_ids(
    source: Source, found: list[tuple[Path, Deployment]], problems: list[Problem]
) -> tuple[Deployment, ...]:
    """Ids for those without: group@host:port/served-name, numbered from the second on.

    On a slot group@slot/recipe: the name that its engine serves is the recipe's own business.
    """
    taken: dict[str, Place] = {}
    counts: Counter[str] = Counter()
    done: list[Deployment] = []
    for path, deployment in found:
        made = f"{deployment.group}@{deployment.upstream}"
        made += "" if deployment.slot else f"/{deployment.served_name}"
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
