"""What a request's head says, beyond what the parser tells."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import unquote

import httptools


def path_of(target: bytes) -> str:
    """The path of a request's target, decoded. httptools refuses what is none."""
    path = httptools.parse_url(target).path.decode("ascii")
    return unquote(path) if "%" in path else path


def size(target: bytes, headers: Mapping[bytes, bytes]) -> int:
    """Bytes of a head, nearly."""
    return len(target) + sum(len(name) + len(value) + 4 for name, value in headers.items())


def has_body(headers: Mapping[bytes, bytes]) -> bool:
    """True if the request says that a body follows."""
    return headers.get(b"content-length", b"0") != b"0" or b"transfer-encoding" in headers
