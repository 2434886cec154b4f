"""Takes secrets out of what a page shows. The last net: pages are built without them first."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Mapping
from typing import Any

from gateway.config.config import Config, Upstream

HIDDEN = "***"
_SECRET_NAME = re.compile(
    r"(?i)^(key|token|authorization|.*[-_](key|token)"
    r"|.*(secret|password|passwd|credential|header|apikey|accesskey)s?)$"
)
# A shorter value also stands in ordinary words, and is no secret worth the name.
_MIN_LENGTH = 4


def secrets_of(config: Config) -> frozenset[str]:
    """Every secret value that a Config holds."""
    found = {config.master_key, *(key.key for key in config.client_keys)}
    found |= {slot.key for slot in config.slots.values()}
    for deployment in config.deployments:
        found.add(deployment.api_key)
        for params in (deployment.litellm_params, deployment.defaults, deployment.fixed):
            found.update(_secret_values(params))
    return frozenset(s for s in found if s is not None and len(s) >= _MIN_LENGTH)


def masked(value: Any, secrets: Iterable[str]) -> Any:
    """`value` as plain data for JSON, without the values of secret names and without `secrets`."""
    return _hide(_plain(value), sorted(secrets, key=len, reverse=True))


def _plain(value: Any) -> Any:
    if isinstance(value, Upstream):
        return str(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: _plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, (set, frozenset)):
        return sorted(_plain(v) for v in value)
    if isinstance(value, (list, tuple)):
        return [_plain(v) for v in value]
    return value


def _hide(value: Any, secrets: list[str]) -> Any:
    if isinstance(value, dict):
        return {
            _hide(k, secrets): HIDDEN if v and is_secret_name(k) else _hide(v, secrets)
            for k, v in value.items()
        }
    if isinstance(value, list):
        return [_hide(v, secrets) for v in value]
    if isinstance(value, str):
        for secret in secrets:
            value = value.replace(secret, HIDDEN)
    return value


def is_secret_name(name: str) -> bool:
    """True for names whose values are secrets: api_key, Authorization, extra_headers, ..."""
    return _SECRET_NAME.match(name) is not None


def _secret_values(params: Mapping[str, Any]) -> Iterable[str]:
    for name, value in params.items():
        if isinstance(value, Mapping):
            yield from _strings(value) if is_secret_name(name) else _secret_values(value)
        elif isinstance(value, str) and is_secret_name(name):
            yield value


def _strings(value: Any) -> Iterable[str]:
    if isinstance(value, Mapping):
        for part in value.values():
            yield from _strings(part)
    elif isinstance(value, str):
        yield value
