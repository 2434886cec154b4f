"""`api_base`: whether an address can be called, and which upstream it means."""

from __future__ import annotations

import ipaddress
import re
import socket
from collections.abc import Iterator
from typing import Final
from urllib.parse import SplitResult, urlsplit

from gateway.config.config import Upstream

_PORTS: Final = {"http": 80, "https": 443}
_LOOPBACK: Final = "127.0.0.1"
# What people copy from a curl line: the path of a request, not of the API.
_REQUEST_PATHS: Final = re.compile(
    r"/(chat/completions|completions|embeddings|rerank|responses|messages|models)\Z"
)


def clean(api_base: str) -> str:
    """The address as it is called: without a trailing slash."""
    return api_base.rstrip("/")


def upstream(api_base: str) -> Upstream:
    """Host and port, normalised: one server has one upstream, however it is written.

    Lower case, the scheme's port filled in, numbers in one form; every loopback name is 127.0.0.1,
    and so is 0.0.0.0, which reaches the machine itself.
    """
    parts = urlsplit(api_base)
    host = (parts.hostname or "").rstrip(".")
    return Upstream(_normal(host), parts.port or _PORTS.get(parts.scheme, 80))


def _normal(host: str) -> str:
    if host == "localhost" or host.endswith(".localhost"):
        return _LOOPBACK
    if re.fullmatch(r"[0-9a-fx.]*", host) and host[:1].isdigit():
        try:  # 127.1 and 0x7f000001 are addresses too
            host = socket.inet_ntoa(socket.inet_aton(host))
        except OSError:
            return host
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host
    mapped = getattr(address, "ipv4_mapped", None) or address
    if mapped.is_loopback or mapped.is_unspecified:
        return _LOOPBACK
    return str(mapped)


def faults(api_base: str, *, relayed: bool) -> Iterator[tuple[str, str]]:
    """What is wrong with an address, as (code, message). The address itself may hold a password."""
    try:
        parts = urlsplit(api_base)
        port = parts.port
    except ValueError:
        yield "api-base", "api_base has a host or port that cannot be read"
        return
    if "@" in parts.netloc:
        yield "api-base-user", "api_base holds a user or password: put the key under api_key"
        return
    if parts.scheme not in _PORTS or not parts.hostname or port == 0 or re.search(r"\s", api_base):
        yield "api-base", f"api_base `{api_base}` is no URL: write http://host:port/v1"
        return
    if parts.query or parts.fragment:
        yield "api-base", f"api_base `{api_base}` has a query or a fragment: leave it out"
    yield from _path_faults(api_base, parts, relayed=relayed)


def _path_faults(api_base: str, parts: SplitResult, *, relayed: bool) -> Iterator[tuple[str, str]]:
    path = parts.path.rstrip("/")
    bare = f"{parts.scheme}://{parts.netloc}"
    if not path and relayed:
        yield (
            "api-base-path",
            f"api_base `{api_base}` has no path, and engines answer 404 there: write {bare}/v1",
        )
    if "//" in path:
        right = bare + re.sub("/+", "/", path)
        yield "api-base-path", f"api_base `{api_base}` has a doubled slash: write {right}"
    elif relayed and (request := _REQUEST_PATHS.search(path)):
        right = bare + path[: request.start()]
        yield (
            "api-base-path",
            f"api_base `{api_base}` ends with the path of a request: write {right}",
        )
