"""Ready before others start, patient for a ten-minute load, and time to finish at the end."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from common.problems import Problem
from serving.stacks.part import Part, Rule

LOAD_S: Final = 600.0  # what weights of this class may take from a cold disk, with compilation
_DOCKER_STOP_S: Final = 10.0
_UNIT: Final = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_TOOLS: Final = ("curl", "wget", "nc", "python3", "python")
# What the images of engines are thought to hold: a hint, not looked up in each release.
_HELD: Final[tuple[tuple[str, frozenset[str]], ...]] = (
    ("vllm/vllm-openai", frozenset({"curl", "python3"})),
    ("lmsysorg/sglang", frozenset({"curl", "wget", "python3", "python"})),
    ("ormandj/sglang", frozenset({"curl", "wget", "python3", "python"})),
    ("llama.cpp", frozenset({"curl"})),
)
_OWN_CHECK: Final = re.compile(r"llama\.cpp:(server|full)")  # images with a health check inside


def duration(given: object) -> float | None:
    """Seconds of `1h30m`, `90s`, `500ms`; None for anything else."""
    text = str(given or "")
    parts = re.findall(r"(\d+(?:\.\d+)?)(us|ms|s|m|h)", text)
    if not parts or "".join(n + unit for n, unit in parts) != text:
        return None
    return sum(float(n) * _UNIT[unit] for n, unit in parts)


def checked(part: Part) -> Mapping[str, Any] | None:
    """The health check of a service, where it has one that is on."""
    given = part.service.data.get("healthcheck")
    if not isinstance(given, Mapping) or given.get("disable") is True:
        return None
    return None if given.get("test") in (["NONE"], "NONE", None) else given


def has_check(part: Part) -> bool:
    """True with a check in the file or, as far as is known, in the image."""
    image = str(part.service.data.get("image") or "")
    off = "healthcheck" in part.service.data
    return checked(part) is not None or (bool(_OWN_CHECK.search(image)) and not off)


def present(part: Part) -> Iterator[Problem]:
    """Without a check nobody can wait until the model is loaded."""
    if part.serves and not has_check(part):
        said = "no healthcheck, so nothing can wait for it to be ready: ask its /health"
        yield part.service.problem("no-healthcheck", said)


def patience(part: Part) -> Iterator[Problem]:
    """A check that gives up while the model loads."""
    check = checked(part)
    if check is None or part.launch is None or part.launch.engine.lazy or not part.gpus:
        return
    start = duration(check.get("start_period")) or 0.0
    interval = duration(check.get("interval")) or 30.0
    retries = check.get("retries")
    total = start + interval * (retries if isinstance(retries, int) else 3)
    if total < LOAD_S:
        said = f"unhealthy after {total:.0f} s (start_period {start:.0f} s, then its retries), and"
        said += f" a model may load for {LOAD_S:.0f} s: write start_period: 1800s"
        path = "start_period" if "start_period" in check else "test"
        yield part.service.problem("health-start", said, "healthcheck", path)


def tool(part: Part) -> Iterator[Problem]:
    """A check with a program that the image may lack is never healthy."""
    check = checked(part)
    if check is None or part.launch is None:
        return
    text = _test(check)
    used = next((t for t in _TOOLS if re.search(rf"(^|[\s;&|/]){t}(\s|$)", text)), None)
    image = str(part.service.data.get("image") or "")
    held = next((tools for name, tools in _HELD if name in image), None)
    python = part.launch.engine.name in ("vllm", "sglang") and used == "python3"  # they run on it
    if used and not python and used not in (held or ()):
        known = "has no" if held is not None else "may lack"
        said = f"the check runs {used}, which the image {known}"
        said += f": use {' or '.join(sorted(held))}" if held else ": try it in the container"
        yield part.service.problem("health-tool", said, "healthcheck", "test")


def asked(part: Part) -> Iterator[Problem]:
    """A check that asks another port than the engine's, or a path that wants a key."""
    check = checked(part)
    if check is None or part.launch is None or not part.launch.known:
        return
    text = _test(check)
    found = re.search(r"(?:localhost|127\.0\.0\.1|0\.0\.0\.0)(?::(\d+))?(/[^\s'\"]*)?", text)
    if not found:
        return
    port = int(found[1] or 80)
    if port != part.launch.port:
        said = f"the check asks port {port}, and {part.launch.engine.name} listens on"
        yield part.service.problem(
            "health-port", f"{said} {part.launch.port}", "healthcheck", "test"
        )
    keyed = part.launch.key(part.service) is not None
    if keyed and (found[2] or "").startswith("/v1") and "authorization" not in text.lower():
        said = f"the check asks {found[2]}, which wants the key, and sends none: ask /health"
        yield part.service.problem("health-key", said, "healthcheck", "test")


def _test(check: Mapping[str, Any]) -> str:
    given = check.get("test")
    return " ".join(map(str, given)) if isinstance(given, list) else str(given)


def stop(part: Part) -> Iterator[Problem]:
    """Docker kills after stop_grace_period, whatever is still being answered."""
    drain = part.drain_s
    given = part.service.data.get("stop_grace_period")
    grace = _DOCKER_STOP_S if given is None else duration(given)
    if part.serves and grace is not None and grace <= drain:
        said = (
            f"docker kills it {grace:.0f} s after a stop{' (the default)' if given is None else ''}"
        )
        said += f", and answers are let finish for {drain:.0f} s: write stop_grace_period:"
        yield part.service.problem("stop-grace", f"{said} {drain + 30:.0f}s", "stop_grace_period")


def restart(part: Part) -> Iterator[Problem]:
    """An engine that died stays down; one that was stopped for another comes back by itself."""
    policy = part.service.data.get("restart")
    text = "no" if policy in (None, False) else str(policy)
    deploy = part.service.data.get("deploy")
    if isinstance(deploy, Mapping) and "restart_policy" in deploy:
        return
    # A written "no" is a decision; nothing written is an oversight.
    if part.serves and policy is None and not part.service.on_demand:
        said = "no restart policy: after a crash it stays down; write restart: unless-stopped"
        yield part.service.problem("restart", said, "restart")
    elif part.launch and part.gpus and text == "always":
        said = "restart: always starts it with the host, also after it was stopped for another"
        yield part.service.problem("restart", f"{said}; write unless-stopped", "restart")


RULES: Final[tuple[Rule, ...]] = (present, patience, tool, asked, stop, restart)
