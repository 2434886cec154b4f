"""The settings blocks as Config has them, where a value is more than its type."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from common.source import Path
from gateway.config import names, rules, schema
from gateway.config.config import Activity, LedgerFiles
from gateway.config.names import Names


def fallback_lists(
    pointing: Names, router: schema.RouterSettings, library: schema.LiteLLMSettings
) -> dict[str, Any]:
    """The three kinds of fallbacks, from whichever of LiteLLM's blocks has them."""
    lists: dict[str, Any] = {}
    for kind in ("fallbacks", "context_window_fallbacks", "default_fallbacks"):
        ours, theirs = getattr(router, kind), getattr(library, kind)
        block = "litellm_settings" if ours is None else "router_settings"
        given = rules.one_setting(ours, theirs)
        if kind == "default_fallbacks":
            lists[kind] = names.default_fallbacks(pointing, block, given)
        else:
            lists[kind] = names.fallbacks(pointing, block, kind, given)
    return lists


def gateway(pointing: Names, block: schema.GatewaySettings) -> dict[str, Any]:
    """Fields of Config that come from gateway_settings alone."""
    host, port = _listen(pointing, block.listen)
    return {
        "host": host,
        "port": port,
        "callback_content": block.callback_content,
        "max_body_bytes": int(block.max_body_mb * 1024 * 1024),
        "hold_s": block.hold_s,
        "heartbeat_s": block.heartbeat_s,
        "client_write_timeout_s": block.client_write_timeout_s,
        "drain_s": block.drain_s,
        "overflow_max_parallel": block.overflow_max_parallel,
        "affinity": dict(_affinity(pointing, block.affinity)),
        "rescue": dict(_rescue(pointing, block)),
        "activity": Activity(
            path=block.activity.path,
            max_bytes=block.activity.max_bytes,
            max_age_days=block.activity.max_age_days,
        ),
        "ledger": LedgerFiles(**block.ledger.model_dump()),
    }


def _listen(pointing: Names, listen: str) -> tuple[str, int]:
    match = re.fullmatch(
        r"(?:\[(?P<six>[0-9A-Fa-f:.]+)\]|(?P<host>[^:\s/]+)):(?P<port>\d{1,5})", listen
    )
    port = int(match["port"]) if match else 0
    if listen.startswith("$"):  # a variable without a value
        return "127.0.0.1", 9000
    if match is None or not 0 <= port <= 65535:
        path: Path = ("gateway_settings", "listen")
        pointing.error(path, "wrong-value", f"`listen` is host:port, not `{listen}`")
        return "127.0.0.1", 9000
    return match["six"] or match["host"], port


def _affinity(pointing: Names, given: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for group, by in given.items():
        path: Path = ("gateway_settings", "affinity", group)
        if not re.fullmatch(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+", by):
            said = f"affinity is by a header's name, or by `key` for the client's key; not `{by}`"
            pointing.error(path, "wrong-value", said)
        elif pointing.is_group(group, path, "unknown-group", "affinity is for", key=True):
            yield group, by


def _rescue(pointing: Names, gateway: schema.GatewaySettings) -> Iterator[tuple[str, Any]]:
    for group, ways in gateway.rescue.items():
        path: Path = ("gateway_settings", "rescue", group)
        if pointing.is_group(group, path, "unknown-group", "rescue is for", key=True):
            yield group, tuple(dict.fromkeys(ways))
