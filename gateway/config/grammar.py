"""Keys that are no fields here: each is named, with what was meant or what to do.

1. a database setting           error    this gateway has none
2. unsafe to leave out          error    LiteLLM would enforce it, and here nothing would
3. already so here              -        LiteLLM's switch for what this gateway always does
4. a field of another block     error    wrong-place: where it would work
5. known to LiteLLM, no use     warning  no-effect
6. near a known key             error    unknown-key, with the nearest
7. known elsewhere, or foreign  error    unknown-key, with where it belongs
8. nothing like it              error    unknown-key
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from common.problems import Problem, Severity
from common.source import Path, Source
from gateway.config import known
from gateway.config.params import DEFAULTS

# LiteLLM's switches for what this gateway always does: (block, key) -> the value that changes
# nothing here. Another value is a warning.
_ALWAYS: Final[Mapping[tuple[str, str], Any]] = {
    ("router_settings", "enable_pre_call_checks"): True,
    ("router_settings", "enable_weighted_failover"): True,
    ("router_settings", "disable_cooldowns"): False,
    ("router_settings", "fallback_on_unsupported_params"): False,
    ("router_settings", "set_verbose"): False,
    ("litellm_settings", "set_verbose"): False,
    ("litellm_settings", "expose_router_debug_in_errors"): False,
    ("litellm_settings", "turn_off_message_logging"): True,
    ("litellm_settings", "redact_messages_in_exceptions"): True,
    ("litellm_settings", "redact_user_api_key_info"): True,
    ("litellm_settings", "enable_post_custom_auth_checks"): True,
    ("general_settings", "cancel_on_disconnect"): True,
    ("general_settings", "disable_spend_logs"): True,
    ("general_settings", "disable_error_logs"): True,
    ("general_settings", "allow_client_side_credentials"): False,
    ("general_settings", "background_health_checks"): False,
    ("general_settings", "store_model_in_db"): False,
}

# What to do instead, where there is something to say.
_REMEDY: Final[Mapping[tuple[str, str], str]] = {
    ("litellm_params", "num_retries"): "retries are set once, in router_settings.num_retries",
    ("litellm_params", "max_retries"): "retries are set once, in router_settings.num_retries",
    ("litellm_params", "use_chat_completions_api"): "say what the engine speaks in model_info.apis",
    ("litellm_params", "merge_reasoning_content_in_choices"): "reasoning passes as it is sent",
    ("litellm_params", "tags"): "a caller is bound by gateway_settings.client_keys",
    ("litellm_params", "extra_headers"): "only the headers of a fixed list go to an engine",
    ("litellm_params", "headers"): "only the headers of a fixed list go to an engine",
    ("model_info", "tier"): "write gateway_settings.tiers",
    ("model_info", "max_tokens"): "write max_input_tokens and max_output_tokens",
    ("router_settings", "retry_policy"): "router_settings.num_retries holds for every failure",
    ("router_settings", "allowed_fails_policy"): "allowed_fails holds for every failure",
    ("litellm_settings", "success_callback"): "every request is in the activity log",
    ("litellm_settings", "failure_callback"): "every request is in the activity log",
    ("litellm_settings", "cache"): "nothing is cached here",
    ("litellm_settings", "cache_params"): "nothing is cached here",
    ("general_settings", "alerting"): "watch /metrics and /health/ready",
}

# Another spelling that LiteLLM takes.
_SAME: Final[Mapping[tuple[str, str], str]] = {("litellm_params", "base_url"): "api_base"}

# Keys that people write and no program reads.
_NOWHERE: Final[Mapping[tuple[str, str], str]] = {
    ("entry", "router_params"): "LiteLLM does not read it either, so it isolates nothing: routing"
    " is under router_settings, and isolation under gateway_settings.tiers",
}

# Keys of other programs' files, which people paste at the root.
_FOREIGN: Final[Mapping[str, str]] = {
    "healthCheckTimeout": "llama-swap's config.yaml",
    "startPort": "llama-swap's config.yaml",
    "globalTTL": "llama-swap's config.yaml",
    "ttl": "llama-swap's config.yaml",
    "macros": "llama-swap's config.yaml",
    "logLevel": "llama-swap's config.yaml",
    "groups": "llama-swap's config.yaml",
    "hooks": "llama-swap's config.yaml",
    "services": "a compose file",
    "volumes": "a compose file",
    "networks": "a compose file",
    "sleep_idle_seconds": "llama.cpp's server options",
}

# Where to look first for a key that is one level off.
_NEAR: Final[Mapping[str, tuple[str, ...]]] = {
    "entry": ("litellm_params", "model_info"),
    "model_info": ("litellm_params",),
    "litellm_params": ("model_info",),
}


def not_a_field(
    path: Path, value: Any, source: Source, *, bridged: bool = False
) -> Iterator[Problem]:
    """The problem with a key that no model has; none where leaving it out changes nothing.

    `bridged`: the key stands in a deployment that LiteLLM serves, which takes it from there.
    """
    key = str(path[-1])
    block, model = known.block_at(path[:-1])
    names = known.litellm_keys().block(block)
    here = known.fields(model)
    at = source.place(path)
    told = f"`{key}` {_where(block)}"

    def problem(code: str, message: str, severity: Severity = "error") -> Problem:
        return Problem(at, severity, code, message)

    if (block, key) in _ALWAYS and _ALWAYS[block, key] == value:  # 3
        return
    if key.startswith("database") or key.endswith("_in_db"):  # 1
        yield problem(
            "database",
            f"{told} asks for a database: this gateway has none, the file is the state; leave"
            " it out",
        )
    elif key in names.unsafe:  # 2
        why = names.unsafe[key]
        yield problem(
            "unsafe-to-ignore",
            f"{told} is LiteLLM's and has no effect here: {why}; leave it out",
        )
    elif (block, key) in _SAME:
        yield problem("unknown-key", f"{told} is spelled `{_SAME[block, key]}` here")
    elif (block, key) == ("model_info", "tier") and value not in ("free", "paid"):
        said = "has no effect, and LiteLLM drops a deployment for it: write gateway_settings.tiers"
        yield problem("wrong-place", f"{told} {said}")
    elif (block, key) not in _REMEDY and (home := _home(key, block)):  # 4
        yield problem("wrong-place", f"{told} has no effect: write it under {home}")
    elif key in names.known:  # 5
        if not (bridged and block == "litellm_params"):
            remedy = _REMEDY.get((block, key), "leave it out")
            yield problem(
                "no-effect", f"{told} is LiteLLM's and has no effect here: {remedy}", "warning"
            )
    else:
        yield problem("unknown-key", f"{told} is not known{_meant(key, block, here)}")


def _home(key: str, block: str) -> str | None:
    """The block in which this key would have an effect, if there is one."""
    near = _NEAR.get(block, ())
    for home in (*near, *known.FIELDS):
        if home != block and key in known.FIELDS[home].model_fields:
            return {"file": "the top level", "entry": "a model_list entry"}.get(home, home)
    if block in ("file", "entry", "model_info", "router_settings") and key in DEFAULTS:
        return "litellm_params"
    return None


def _meant(key: str, block: str, here: frozenset[str]) -> str:
    """What to add to "is not known"."""
    if (nowhere := _NOWHERE.get((block, key))) is not None:
        return f": {nowhere}"
    names = known.litellm_keys().block(block)
    also = DEFAULTS if block == "litellm_params" else frozenset()
    elsewhere = [b for b, found in known.litellm_keys().blocks.items() if key in found]
    near = known.nearest(key, here)
    if near is None and not elsewhere:
        near = known.nearest(key, names.known | also, 0.75)
    if near is not None:  # 6
        return f" (did you mean `{near}`?)"
    if key in _FOREIGN and block == "file":  # 7
        return f": it belongs in {_FOREIGN[key]}"
    if elsewhere:
        return f": LiteLLM reads it {_where(elsewhere[0])}"
    for other, model in known.FIELDS.items():
        if near := known.nearest(key, model.model_fields, 0.8):
            return f" (did you mean `{near}` {_where(other)}?)"
    if block == "litellm_params":  # 8
        return ": a field for the engine goes under extra_body"
    if block in known.litellm_keys().blocks:
        return ", and LiteLLM does not read it either: it never had an effect"
    return f" (there are: {', '.join(sorted(here))})" if len(here) <= 8 else ""


def _where(block: str) -> str:
    words = {"file": "at the top level", "entry": "in a model_list entry"}
    return words.get(block, f"in {block}")
