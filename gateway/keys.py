"""Who is calling: client keys, the master key, and the names that each opens.

A key is looked up by its SHA-256, so the time taken says nothing about the key. Its grants (`tiers`
and `models` together) apply once, to the name or task that the client sends: fallback targets are
the file's decision.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from hmac import compare_digest

from gateway.config.config import Config
from gateway.errors import BadRequest, Forbidden, Unauthorized
from gateway.routing.table import Route, RouteTable

_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
_NO_KEY = "no API key: send 'Authorization: Bearer KEY' (or 'x-api-key: KEY')"


@dataclass(frozen=True, slots=True, kw_only=True)
class Client:
    """A caller whose key is known."""

    name: str
    names: frozenset[str]  # every name and task/NAME that it may send
    admin: bool = False

    def must_open(self, route: Route) -> None:
        """Raise Forbidden unless its key opens this name."""
        if route.name not in self.names:
            raise Forbidden(f"this key does not open '{route.name}'")

    def may_use(self, route: Route) -> bool:
        """True if its key opens this name."""
        return route.name in self.names


class KeyRing:
    """The keys of one revision of the file. Without any, everybody is `insecure` (see server)."""

    def __init__(self, config: Config, table: RouteTable) -> None:
        self._clients: dict[bytes, tuple[bytes, Client]] = {}
        # The header as nearly everybody sends it. A dict compares two values only where all 64 bits
        # of a keyed hash are equal, so the time taken says as little as that of a SHA-256.
        self._by_header: dict[bytes | None, Client] = {}
        everything = frozenset(n for n, r in table.routes.items() if r.tier != "burst")
        if config.master_key is not None:
            self._add(config.master_key, Client(name="master", names=everything, admin=True))
        for key in config.client_keys:
            names = frozenset(
                name
                for name, route in table.routes.items()
                if route.tier in key.tiers or name in key.models or route.task in key.models
            )
            self._add(key.key, Client(name=key.name, names=names, admin=key.admin))
        self._anybody = (
            None if self._clients else Client(name="insecure", names=everything, admin=True)
        )

    def _add(self, key: str, client: Client) -> None:
        raw = key.encode()
        self._clients[sha256(raw).digest()] = (raw, client)
        self._by_header[b"Bearer " + raw] = client

    @property
    def is_open(self) -> bool:
        """True if the file has no key at all: anybody is served."""
        return self._anybody is not None

    def identify(self, headers: Iterable[tuple[bytes, bytes]]) -> Client:
        """The client of a request's headers (names in lower case).

        Raises Unauthorized without a known key, BadRequest if two headers hold different keys.
        """
        found = dict(headers)
        if self._anybody is not None:
            guard_host(found)
        return self.who(found.get(b"authorization"), found.get(b"x-api-key"))

    def client(self, headers: Mapping[bytes, bytes]) -> Client:
        """The client of an inference request. Without any key in the file, see guard_open."""
        if self._anybody is not None:
            guard_open(headers)
        return self.who(headers.get(b"authorization"), headers.get(b"x-api-key"))

    def who(self, authorization: bytes | None, x_api_key: bytes | None) -> Client:
        """The same, from the values of the two headers."""
        if x_api_key is None and (known := self._by_header.get(authorization)) is not None:
            return known
        if self._anybody is not None:
            return self._anybody
        key = x_api_key
        if authorization is not None:
            scheme, _, bearer = authorization.partition(b" ")
            if scheme.lower() != b"bearer" or not bearer.strip():
                raise Unauthorized("the Authorization header must be 'Bearer KEY'")
            bearer = bearer.strip()
            if x_api_key is not None and x_api_key != bearer:
                raise BadRequest("Authorization and x-api-key hold different keys: send one")
            key = bearer
        if key is None:
            raise Unauthorized(_NO_KEY)
        found = self._clients.get(sha256(key).digest())
        if found is None or not compare_digest(found[0], key):
            raise Unauthorized("this API key is not in the gateway's file")
        return found[1]


def guard_open(headers: Mapping[bytes, bytes]) -> None:
    """For a gateway without keys: a web page elsewhere must not reach the engines through it.

    Raises Forbidden unless Host is a loopback name, BadRequest unless the body is said to be JSON.
    """
    guard_host(headers)
    if headers.get(b"content-type", b"").split(b";")[0].strip().lower() != b"application/json":
        raise BadRequest("Content-Type must be application/json", status=415)


def guard_host(headers: Mapping[bytes, bytes]) -> None:
    """The part of it that also holds for the pages. Raises Forbidden."""
    host = headers.get(b"host", b"").decode("latin-1")
    name = host if host.endswith("]") else host.rsplit(":", 1)[0]
    if name.strip("[]").lower() not in _LOOPBACK:
        raise Forbidden("without keys in the file, Host must be a loopback name")
