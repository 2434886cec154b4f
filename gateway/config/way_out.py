"""A file for the stock LiteLLM proxy, made from a checked one: the way out.

The proxy's own defaults give way to those that keep it safest. What it cannot hold is said in
comments, beside what it concerns. Nothing is resolved: `os.environ/NAME` stays as it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import yaml

from gateway.config import callbacks
from gateway.config.config import Config, Deployment

_TASK: Final = "task/"
_WIDTH: Final = 98
# The proxy takes 3 for "not set", and then rests by rules of its own.
_MOST_FAILS: Final = 2
# What it publishes or reads of model_info; anything else it ignores without a word.
_INFO: Final = ("id", "mode", "max_input_tokens", "max_output_tokens")

_HEAD: Final = """\
For the stock LiteLLM proxy {release}: made by `gateway render --stock` from {path},
revision {revision}. Do not edit: change that file, and render again.

  LITELLM_LOCAL_MODEL_COST_MAP=True SIGNALBOX_CONFIG={path} litellm --config THIS_FILE

The first variable keeps it from asking a host on the internet when it starts; by the second its
records name tiers and tasks as this project's do. One process only: every count below is its own.

What is lost there:
- Isolation is not enforced, and nothing proves it. A client may send any name in this file, the id
  of a deployment, a raw provider/model, or `fallbacks`, `api_key` and `timeout` in the body.
- Caps are not hard. `rpm` and `tpm` count nothing: without max_parallel_requests, they limit what
  runs at one time. max_parallel_requests is forgotten about every ten minutes, for what runs then.
- Nothing waits. A request beyond a cap is a failure: it goes to the fallbacks, or gets 429.
- A stream that ends without its terminator counts as whole.
- The file is read once: a change needs a restart. Unknown keys are ignored without a word."""


def render(config: Config, data: Mapping[str, Any], *, release: str) -> str:
    """The file as text. `data` is the YAML of `config` as it was written, free of errors."""
    blocks = (
        _comment(
            _HEAD.format(release=release, path=config.path, revision=config.revision),
            *_lost(config, data),
        ),
        "\n".join(("model_list:", *_entries(config, data))),
        _block("router_settings", _router(config, data), *_about_routes(config)),
        _block("litellm_settings", _library(config)),
        _block("general_settings", _general(data), *_about_keys(config, _general(data))),
    )
    return "\n\n".join(blocks) + "\n"


def _comment(*paragraphs: str, indent: str = "") -> str:
    lines = [line for text in paragraphs for line in text.splitlines()]
    return "\n".join(f"{indent}# {line}".rstrip() for line in lines)


def _block(name: str, data: Mapping[str, Any], *about: str) -> str:
    said = [_comment(*about)] if about else []
    return "\n".join((*said, _yaml({name: data})))


def _yaml(data: Any) -> str:
    return yaml.safe_dump(data, sort_keys=False, width=_WIDTH, allow_unicode=True).rstrip()


def _lost(config: Config, data: Mapping[str, Any]) -> Iterator[str]:
    """Settings of this file without a counterpart, by name."""
    kept = {"tiers", "task_pins", "client_keys", "activity", "callback_content"}
    given = data.get("gateway_settings") or {}
    if gone := [name for name in given if name not in kept]:
        yield f"- Without a counterpart: {', '.join(f'`{name}`' for name in gone)}."
    fixed = sorted({d.group for d in config.deployments if d.fixed})
    if fixed:
        yield f"- extra_body is only a default: a client's own values win, on {', '.join(fixed)}."


def _entries(config: Config, data: Mapping[str, Any]) -> Iterator[str]:
    for deployment, entry in zip(config.deployments, data["model_list"], strict=True):
        members = config.groups()[deployment.group]
        if about := list(_about_entry(config, deployment)):
            yield _comment(*about, indent="  ")
        lines = _yaml([_entry(deployment, entry, members)]).splitlines()
        yield "\n".join(f"  {line}" for line in lines)


def _about_entry(config: Config, deployment: Deployment) -> Iterator[str]:
    tier = config.tiers.get(deployment.group)
    capped = deployment.rpm is not None or deployment.max_parallel_requests is not None
    if tier == "background" and capped:
        yield "The bound of this entry is not hard there."
    if deployment.slot is not None:
        yield (
            f"On slot {deployment.slot} here, recipe {deployment.recipe}: there it needs an\n"
            "api_base, and nothing loads its recipe."
        )
    if tier == "burst":
        yield "Any client may name this group there: it is no longer reached by fallback only."


def _entry(
    deployment: Deployment, entry: Mapping[str, Any], members: tuple[Deployment, ...]
) -> dict[str, Any]:
    params = {k: v for k, v in entry["litellm_params"].items() if v is not None}
    params.setdefault("timeout", params.pop("request_timeout", deployment.timeout_s))
    if not deployment.timeout_s:
        del params["timeout"]  # 0 is no limit here, and no time at all there
    if len(members) > 1 and deployment.weight is None:
        params["weight"] = 1  # without, it would weigh by rpm or tpm
    given = entry.get("model_info") or {}
    info = {name: given[name] for name in _INFO if given.get(name) is not None}
    found = {"model_name": deployment.group, "litellm_params": params}
    return {**found, "model_info": info} if info else found


def _router(config: Config, data: Mapping[str, Any]) -> dict[str, Any]:
    given = data.get("router_settings") or {}
    fails = min((d.allowed_fails for d in config.deployments), default=_MOST_FAILS)
    windows = all(d.max_input_tokens for d in config.deployments)
    found: dict[str, Any] = {
        "routing_strategy": "simple-shuffle",
        # It would pause before the fallback; untried members are still tried, by the next line.
        "num_retries": 0,
        "enable_weighted_failover": True,
        "allowed_fails": max(1, min(fails, _MOST_FAILS)),
        "cooldown_time": given.get("cooldown_time", 5),
        "enable_pre_call_checks": windows,
        "fallback_on_unsupported_params": False,
        "model_group_alias": _aliases(config),
        "fallbacks": _lists(config, config.fallbacks),
        "context_window_fallbacks": _lists(config, config.context_window_fallbacks),
        "default_fallbacks": list(config.default_fallbacks),
        "max_fallbacks": config.max_fallbacks,
    }
    return {k: v for k, v in found.items() if v not in (None, [], {})}


def _aliases(config: Config) -> dict[str, Any]:
    aliases: dict[str, Any] = {
        one.name: {"model": one.group, "hidden": True} if one.hidden else one.group
        for one in config.aliases.values()
    }
    return aliases | {f"{_TASK}{pin.task}": pin.group for pin in config.pins.values()}


def _lists(config: Config, lists: Mapping[str, Iterable[str]]) -> list[dict[str, list[str]]]:
    """A list for each name: there, an alias does not have its group's."""
    found = {name: list(targets) for name, targets in lists.items()}
    for alias in config.aliases.values():
        if alias.name not in found and alias.group in lists:
            found[alias.name] = list(lists[alias.group])
    for pin in config.pins.values():
        if pin.fallbacks and pin.group in lists:
            found[f"{_TASK}{pin.task}"] = list(lists[pin.group])
    return [{name: targets} for name, targets in found.items()]


def _about_routes(config: Config) -> Iterator[str]:
    if config.pins:
        yield (
            "A task is an alias here, and only that: X-Task and metadata.task are not read.\n"
            "An unknown task is refused, as an unknown model."
        )
    capped = {d.group for d in config.deployments if d.rpm or d.tpm or d.max_parallel_requests}
    full = sorted(
        group
        for group, targets in config.fallbacks.items()
        if group in capped and any(config.tiers.get(target) == "burst" for target in targets)
    )
    if full:
        yield f"At its caps a group counts as failed, and goes to the cloud: {', '.join(full)}."
    alone = sorted(pin.task for pin in config.pins.values() if not pin.fallbacks)
    if alone and config.default_fallbacks:
        yield f"`fallbacks: false` of {', '.join(alone)} is lost: default_fallbacks hold for all."


def _library(config: Config) -> dict[str, Any]:
    others = [name for name in config.callbacks if name != callbacks.RECORDER]
    return {
        "drop_params": True,
        "callbacks": [callbacks.RECORDER, *others],
        "turn_off_message_logging": not config.callback_content,
        # Else an error names every fallback group to the client.
        "expose_router_debug_in_errors": False,
        "enable_post_custom_auth_checks": True,
    }


def _general(data: Mapping[str, Any]) -> dict[str, Any]:
    given = (data.get("general_settings") or {}).get("master_key")
    key = {} if given is None else {"master_key": given}
    return {**key, "cancel_on_disconnect": True, "custom_auth_run_common_checks": True}


def _about_keys(config: Config, general: Mapping[str, Any]) -> Iterator[str]:
    if config.client_keys:
        names = ", ".join(key.name for key in config.client_keys)
        yield (
            f"Lost: the keys of {names}.\n"
            "Without a database there is one key, and it opens everything: the burst tier, and\n"
            "the admin routes too. A general_settings.custom_auth of your own may bring them\n"
            "back; the two checks that it needs are on."
        )
    if "master_key" not in general:
        yield "It does not start without a master key: set general_settings.master_key."
