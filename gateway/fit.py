"""Fit a request's body to a deployment: its model name, and what the file drops, adds or fixes.

    the client's fields, less `additional_drop_params`
    + defaults (sampling and engine keys under litellm_params): the client's value wins
    + `extra_body`: fixed, it wins; objects are merged key by key
    + usage asked for in streams of dialects that send it only when asked

Shared by relay and bridge. Values that nothing touches stay the client's own bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import msgspec

from gateway.body import Fields, read
from gateway.config.config import Deployment, Dialect
from gateway.dialects import ASKS_FOR_USAGE, LIMIT_FIELDS, SUFFIXES
from gateway.errors import BadRequest
from gateway.exchange import Request

_encode = msgspec.json.encode
_DEFAULT_MAX_TOKENS = 1000
_INCLUDE_USAGE = msgspec.Raw(b'{"include_usage":true}')


@dataclass(frozen=True, slots=True)
class Fit:
    """What one deployment does to every body; made once per deployment."""

    model: msgspec.Raw
    drop: frozenset[str]
    defaults: Mapping[str, msgspec.Raw]
    fixed: Mapping[str, Any]

    @classmethod
    def of(cls, deployment: Deployment) -> Fit:
        """The fit of a deployment."""
        return cls(
            model=msgspec.Raw(_encode(deployment.served_name)),
            drop=deployment.drop_params,
            defaults={k: msgspec.Raw(_encode(v)) for k, v in deployment.defaults.items()},
            fixed=deployment.fixed,
        )

    def fields(self, request: Request) -> Fields:
        """The fields to send. Raises BadRequest where a fixed object meets something else."""
        fields = dict(request.fields)
        for name in self.drop:
            fields.pop(name, None)
        fields["model"] = self.model
        for name, value in self.defaults.items():
            fields.setdefault(name, value)
        for name, value in self.fixed.items():
            fields[name] = msgspec.Raw(_encode(_over(fields, name, value)))
        if request.stream and request.dialect in ASKS_FOR_USAGE and not request.wants_usage:
            said = read(fields, "stream_options", dict)
            fields["stream_options"] = (
                msgspec.Raw(_encode(said | {"include_usage": True})) if said else _INCLUDE_USAGE
            )
        return fields

    def body(self, request: Request) -> bytes:
        """The same, as the JSON to send."""
        return _encode(self.fields(request))


def _over(fields: Fields, name: str, fixed: Any) -> Any:
    """A fixed value, laid over the client's where both are objects."""
    if not isinstance(fixed, dict) or name not in fields:
        return fixed
    try:
        said = msgspec.json.decode(fields[name])
    except msgspec.DecodeError:
        raise BadRequest(f"'{name}' is no JSON value") from None
    return merged(said, fixed) if isinstance(said, dict) else fixed


def answer_limit(fields: Fields) -> int:
    """How many tokens the client lets the answer have: what `tpm` reserves for it."""
    for name in LIMIT_FIELDS:
        if name in fields and (limit := read(fields, name, int)):
            return int(limit)
    return _DEFAULT_MAX_TOKENS


def merged(below: dict[str, Any], above: dict[str, Any]) -> dict[str, Any]:
    """`above` laid over `below`; objects are merged key by key."""
    found = dict(below)
    for key, value in above.items():
        lower = found.get(key)
        if isinstance(value, dict) and isinstance(lower, dict):
            found[key] = merged(lower, value)
        else:
            found[key] = value
    return found


def address(deployment: Deployment) -> tuple[str, int, bool]:
    """Host, port and whether by TLS, from the `api_base` as it is written."""
    base = urlsplit(deployment.api_base or "")
    tls = base.scheme == "https"
    return base.hostname or "", base.port or (443 if tls else 80), tls


def head(deployment: Deployment, dialect: Dialect) -> bytes:
    """The part of a request's head that never changes. Only listed headers ever go up."""
    base = urlsplit(deployment.api_base or "")
    key = f"Authorization: Bearer {deployment.api_key}\r\n" if deployment.api_key else ""
    return (
        f"POST {base.path.rstrip('/')}{SUFFIXES[dialect]} HTTP/1.1\r\nHost: {base.netloc}\r\n{key}"
        "Content-Type: application/json\r\nAccept-Encoding: identity\r\nUser-Agent: signalbox\r\n"
    ).encode("latin-1")


def whole_head(always: bytes, request: Request, length: int) -> bytes:
    """A request's head: what never changes, then its id, its own headers and its length."""
    up = b"".join([b"%b: %b\r\n" % header for header in request.headers.items()])
    return b"%bX-Request-Id: %b\r\n%bContent-Length: %d\r\n\r\n" % (
        always, request.id, up, length,
    )  # fmt: skip
