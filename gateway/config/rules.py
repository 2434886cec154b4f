"""Rules over several keys: settings that contradict, and members of one group that do not fit.

conflict          one setting in two blocks
partial-weight    a group in which only some members have a weight
shares-by-caps    (warning) no weights, but caps that LiteLLM would weigh by
mixed-modes       a group that serves chat here and embeddings there
callback          a callback that cannot be imported
builtin-callback  (warning) LiteLLM's own callback, which is not run here
rescue-no-way     (warning) a rescue without a fallback to carry on with
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from common.problems import Place, Problem
from common.source import Path, Source
from gateway.config import callbacks, known, schema
from gateway.config.config import Config, Deployment

# One setting, two places: (in router_settings, in litellm_settings).
_TWICE: Final = (
    ("num_retries", "num_retries"),
    ("allowed_fails", "allowed_fails"),
    ("timeout", "request_timeout"),
    ("fallbacks", "fallbacks"),
    ("context_window_fallbacks", "context_window_fallbacks"),
    ("default_fallbacks", "default_fallbacks"),
)


def conflicts(
    source: Source, router: schema.RouterSettings, library: schema.LiteLLMSettings
) -> Iterator[Problem]:
    """A setting that stands in both of LiteLLM's blocks: only one of them can hold."""
    for here, there in _TWICE:
        ours, theirs = getattr(router, here), getattr(library, there)
        if ours is None or theirs is None:
            continue
        lists = here.endswith("fallbacks")
        if ours == theirs and not lists:
            continue
        path: Path = ("router_settings", here)
        at = source.place(("litellm_settings", there))
        values = "" if lists else f" ({theirs:g} here, {ours:g} there)"
        said = (
            f"`{there}` in litellm_settings is also `{here}` in router_settings, line"
            f" {source.place(path).line}{values}: keep the one in router_settings, which LiteLLM"
            " would use"
        )
        yield Problem(at, "error", "conflict", said)


def one_setting(*values: Any, default: Any = None) -> Any:
    """The first of one setting's places that has a value."""
    return next((value for value in values if value is not None), default)


def groups(deployments: tuple[Deployment, ...]) -> Iterator[Problem]:
    """What holds within each model group."""
    members: dict[str, list[Deployment]] = {}
    for deployment in deployments:
        members.setdefault(deployment.group, []).append(deployment)
    for group, found in members.items():
        yield from _weights(group, found)
        yield from _modes(group, found)


def _weights(group: str, members: list[Deployment]) -> Iterator[Problem]:
    without = [m for m in members if m.weight is None]
    if without and len(without) < len(members):
        for member in without:
            yield Problem(
                member.place,
                "error",
                "partial-weight",
                f"this member of '{group}' has no weight and others have: LiteLLM would send it"
                " nothing; give every member a weight, or none",
            )
    caps = {(m.rpm, m.tpm) for m in members}
    if len(without) == len(members) > 1 and len(caps) > 1:
        yield Problem(
            members[0].place,
            "warning",
            "shares-by-caps",
            f"no member of '{group}' has a weight, so all get equal shares here; LiteLLM would"
            " weigh by rpm or tpm: write weights to say what you mean",
        )


def _modes(group: str, members: list[Deployment]) -> Iterator[Problem]:
    first = members[0]
    for member in members[1:]:
        if member.mode != first.mode:
            yield Problem(
                member.place,
                "error",
                "mixed-modes",
                f"this member of '{group}' has mode {member.mode}, the one at line"
                f" {first.place.line} has {first.mode}: a group serves one kind of request",
            )


def callback_faults(source: Source, names: list[str], config_path: str) -> Iterator[Problem]:
    """Callbacks that would not load, or would never be called."""
    builtin = known.litellm_keys().callbacks
    for i, name in enumerate(names):
        at: Place = source.value(("litellm_settings", "callbacks", i))
        if name in builtin:
            said = f"LiteLLM's own callback '{name}' is not run here"
            more = ": /metrics is always there" if name == "prometheus" else ""
            yield Problem(at, "warning", "builtin-callback", said + more)
        elif "." not in name:
            said = f"'{name}' is no module.instance and none of LiteLLM's own callbacks"
            near = known.did_you_mean(name, builtin)
            yield Problem(at, "error", "callback", said + near)
        elif why := callbacks.fault(name, config_path):
            yield Problem(at, "error", "callback", f"callback '{name}' cannot be imported: {why}")


def policies(source: Source, router: schema.RouterSettings) -> Iterator[Problem]:
    """Blocks of LiteLLM that have no effect here: said once, and read for slips all the same."""
    inner = known.litellm_keys().inner
    blocks: Mapping[str, Any] = {
        "retry_policy": router.retry_policy,
        "allowed_fails_policy": router.allowed_fails_policy,
    }
    remedy = {"retry_policy": "num_retries", "allowed_fails_policy": "allowed_fails"}
    for block, given in blocks.items():
        if given is None:
            continue
        path: Path = ("router_settings", block)
        said = f"`{block}` is LiteLLM's and has no effect here: `{remedy[block]}` holds for all"
        yield Problem(source.place(path), "warning", "no-effect", f"{said} failures")
        for name in given:
            if name not in inner[block]:
                near = known.did_you_mean(name, inner[block])
                said = f"`{name}` is not known in {block}{near}"
                yield Problem(source.place((*path, name)), "error", "unknown-key", said)
    if router.routing_strategy not in (None, "simple-shuffle"):
        said = f"`{router.routing_strategy}` has no effect here: requests are shared by weight"
        more = ", and a member at its cap, or resting, is passed over"
        at = source.value(("router_settings", "routing_strategy"))
        yield Problem(at, "warning", "no-effect", said + more)
    for i, check in enumerate(router.optional_pre_call_checks or ()):
        at = source.value(("router_settings", "optional_pre_call_checks", i))
        if check not in inner["optional_pre_call_checks"]:
            near = known.did_you_mean(check, inner["optional_pre_call_checks"])
            yield Problem(at, "error", "wrong-value", f"there is no check '{check}'{near}")
        elif "budget" in check:
            said = f"'{check}' has no effect here: nothing would stop spending; leave it out"
            yield Problem(at, "error", "unsafe-to-ignore", said)
        elif check != "enforce_model_rate_limits":  # caps are always enforced
            yield Problem(at, "warning", "no-effect", f"'{check}' has no effect here: leave it out")


def rescue_ways(source: Source, config: Config) -> Iterator[Problem]:
    """A rescue carries on with a fallback: without one it does nothing."""
    for group in config.rescue:
        if not config.fallbacks.get(group, config.default_fallbacks):
            at = source.place(("gateway_settings", "rescue", group))
            said = f"group '{group}' has no fallback, so nothing can carry its streams on"
            yield Problem(at, "warning", "rescue-no-way", said)
