"""From the file to a Config, or to every problem at once.

The steps: YAML with places (common/source.py); variables (env.py); each block against the schema
(shapes.py, grammar.py); each deployment (deployments.py); names that point at others (names.py,
access.py); rules over several keys (rules.py); isolation (isolation.py). A step leaves out what
is wrong and goes on, so that one run shows all.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, TypeVar

from pydantic import BaseModel

from common import source as yaml_source
from common.problems import Problem, has_errors, in_order
from common.source import Source
from gateway.config import (
    access,
    deployments,
    grammar,
    isolation,
    names,
    revision,
    rules,
    schema,
    settings,
    shapes,
    slot_rules,
)
from gateway.config.config import Config, Deployment, Revision
from gateway.config.deployments import Shared
from gateway.config.env import BadEnvFile, Resolved, read_env_file, resolve
from gateway.config.names import Names

__all__ = ["BadEnvFile", "Loaded", "load", "load_text", "read_env_file"]

Fitted = TypeVar("Fitted", bound=BaseModel)

_BLOCKS: Final = ("model_list", "router_settings", "litellm_settings", "general_settings")

# With one of these the proof would be about another file than the one that was meant.
_UNPROVABLE: Final = ("yaml", "duplicate-key", "key-type", "wrong-type", "wrong-value")
_MISSING: Final = (
    "missing-key",
    "unknown-provider",
    "no-provider",
    "two-tiers",
    "api-base",
    "wildcard",
)


@dataclass(frozen=True, slots=True)
class Loaded:
    """A Config, and what there is to say about the file. None: it must not be served."""

    config: Config | None
    problems: tuple[Problem, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Blocks:
    """The settings blocks as the file has them."""

    router: schema.RouterSettings
    library: schema.LiteLLMSettings
    general: schema.GeneralSettings
    gateway: schema.GatewaySettings


def load(path: str, environ: Mapping[str, str] | None = None, *, check_env: bool = True) -> Loaded:
    """The file at `path`. Without `check_env` each variable is taken as a value of its own."""
    try:
        with open(path, "rb") as file:  # noqa: PTH123 - any path that open takes, such as /dev/stdin
            text = file.read()
    except (OSError, ValueError):
        return Loaded(None, yaml_source.read_file(path).problems)
    return load_text(
        text,
        path,
        os.environ if environ is None else environ,
        check_env=check_env,
        revision=revision.of_file(path, text),
    )


def load_text(
    text: bytes,
    path: str,
    environ: Mapping[str, str],
    *,
    check_env: bool = True,
    revision: Revision | None = None,
) -> Loaded:
    """`text` as the content of `path`: no file is read, but for callbacks next to it."""
    source = yaml_source.read(text, path)
    if not source.data:
        return Loaded(None, in_order(source.problems))
    resolved = resolve(source, environ, check_env=check_env)
    problems = [*source.problems, *resolved.problems, *_top_level(source, resolved)]
    config = _config(source, resolved, problems, revision or _of_text(text))
    if not any(p.code in (*_UNPROVABLE, *_MISSING) for p in problems if p.severity == "error"):
        problems += isolation.check(config, source.place)
    return Loaded(None if has_errors(problems) else config, in_order(problems))


def _of_text(text: bytes) -> Revision:
    return revision.of_text(text)


def _top_level(source: Source, resolved: Resolved) -> Iterator[Problem]:
    for key, value in resolved.data.items():
        if key not in (*_BLOCKS, "gateway_settings"):
            yield from grammar.not_a_field((key,), value, source)


def _block(
    model: type[Fitted], name: str, source: Source, resolved: Resolved, problems: list[Problem]
) -> Fitted:
    data = resolved.data.get(name)
    if data is None:
        return model()
    if name == "gateway_settings" and isinstance(data, dict):
        data = {key: value for key, value in data.items() if key != "client_keys"}
    fitted, found = shapes.fit(model, data, (name,), source=source, resolved=resolved)
    problems += found
    return model() if fitted is None else fitted


def _config(
    source: Source, resolved: Resolved, problems: list[Problem], revised: Revision
) -> Config:
    """Everything that could be read; `problems` grows by what could not."""
    blocks = _Blocks(
        router=_block(schema.RouterSettings, "router_settings", source, resolved, problems),
        library=_block(schema.LiteLLMSettings, "litellm_settings", source, resolved, problems),
        general=_block(schema.GeneralSettings, "general_settings", source, resolved, problems),
        gateway=_block(schema.GatewaySettings, "gateway_settings", source, resolved, problems),
    )
    problems += rules.conflicts(source, blocks.router, blocks.library)
    problems += rules.policies(source, blocks.router)
    problems += rules.callback_faults(source, blocks.library.callbacks, source.file)
    members, found = deployments.build(source, resolved, _shared(blocks))
    problems += found
    problems += rules.groups(members)
    there = frozenset(d.group for d in members)
    pointing = Names(source=source, groups=there, hidden_groups=_named(resolved) - there)
    config = _assembled(blocks, members, pointing, resolved, revised)
    problems += pointing.problems
    problems += rules.rescue_ways(source, config)
    given = blocks.general.master_key or config.client_keys  # a variable may have no value here
    if not (given or has_errors(problems)):
        problems.append(access.no_keys(source))
    return config


def _named(resolved: Resolved) -> frozenset[str]:
    entries = resolved.data.get("model_list")
    found = [e.get("model_name") for e in entries or () if isinstance(e, dict)]
    return frozenset(name for name in found if isinstance(name, str))


def _shared(blocks: _Blocks) -> Shared:
    router, library = blocks.router, blocks.library
    return Shared(
        timeout_s=rules.one_setting(router.timeout, library.request_timeout),
        stream_timeout_s=router.stream_timeout,
        stream_idle_timeout_s=blocks.gateway.stream_idle_timeout_s,
        cooldown_s=rules.one_setting(router.cooldown_time, default=5.0),
        allowed_fails=rules.one_setting(router.allowed_fails, library.allowed_fails, default=3),
        max_parallel_requests=router.default_max_parallel_requests,
        drop_params=bool(library.drop_params),
    )


def _assembled(
    blocks: _Blocks,
    members: tuple[Deployment, ...],
    pointing: Names,
    resolved: Resolved,
    revised: Revision,
) -> Config:
    router, library, gateway = blocks.router, blocks.library, blocks.gateway
    aliases = names.aliases(pointing, router.model_group_alias)
    pins = names.pins(pointing, gateway.task_pins)
    general, source = blocks.general, pointing.source
    master, found = access.master_key(source, resolved, general.master_key)
    pointing.problems += found
    return Config(
        path=source.file,
        revision=revised,
        deployments=members,
        tiers=names.tiers(pointing, gateway.tiers, members),
        tier_rules=names.tier_rules(gateway.tiers),
        aliases=aliases,
        pins=pins,
        max_fallbacks=router.max_fallbacks,
        num_retries=rules.one_setting(router.num_retries, library.num_retries, default=2),
        master_key=master,
        client_keys=access.client_keys(pointing, resolved, master),
        callbacks=tuple(library.callbacks),
        slots=slot_rules.settings(pointing, gateway.slots, resolved, members),
        **settings.fallback_lists(pointing, router, library),
        **settings.gateway(pointing, gateway),
    )
