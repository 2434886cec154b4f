"""How calls fail: the provider's refusals, and the library's exceptions, as statuses and words.

A refusal keeps the provider's status, its Retry-After and, where it is known, its own body, which
judge.py reads in any shape. Where no answer came, the outcome says how: not connected, broken off,
or too late.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator

from gateway.bridge.call import Head, Outcome
from gateway.bridge.repair import Unfinished
from gateway.errors import GatewayError, envelope
from gateway.exchange import Headers
from gateway.http1.errors import ClientError, ConnectFailed

_JSON = ("content-type", "application/json")
_PASSED = frozenset({"retry-after", "retry-after-ms"})
# Classes of httpx, aiohttp and the SDKs, by name: which of them runs is litellm's choice.
_NOT_CONNECTED = frozenset(
    {"ConnectError", "ConnectTimeout", "ClientConnectorError", "ClientConnectorDNSError"}
)
_BROKEN = frozenset(
    {
        "RemoteProtocolError",
        "ReadError",
        "WriteError",
        "ServerDisconnectedError",
        "ClientPayloadError",
        "ClientOSError",
        "IncompleteRead",
        "ConnectionResetError",
    }
)
_LATE = frozenset({"ReadTimeout", "WriteTimeout", "SocketTimeoutError"})
# litellm's own words around a provider's: `litellm.BadRequestError: OpenAIException - ...`
_PREFIX = re.compile(r"^(litellm\.)?(\w+(Error|Exception|Timeout)\b[:\s-]*)+(?=\S)")


class Refused(Exception):
    """The provider answered with a status that is no success."""

    def __init__(self, status: int, headers: Headers, body: bytes) -> None:
        super().__init__(f"status {status}")
        self.status, self.body = status, body
        named = ((k.decode("latin-1"), v.decode("latin-1")) for k, v in headers)
        self.headers = [(k, v) for k, v in named if k in _PASSED]


def told(error: BaseException) -> tuple[Head, bytes]:
    """How an answer begins that is a failure, and its body."""
    if isinstance(error, Refused):
        return Head(status=error.status, headers=[*error.headers, _JSON]), error.body
    if isinstance(error, GatewayError):
        status, code = error.shown_status, error.shown_code
        return Head(status=status, headers=[_JSON]), _body(status, code, error.message)
    if outcome := outcome_of(error):
        return Head(status=502, outcome=outcome, detail=_text(error)), b""
    said = getattr(error, "status_code", None)
    status = said if isinstance(said, int) and 300 <= said < 600 else 502
    if status == 502 and isinstance(error, (ValueError, TypeError, KeyError)):
        status = 400  # the library could not read the request, and says so this way
    headers = [*_retry_after(error), _JSON]
    return Head(status=status, headers=headers), _said(error) or _body(
        status, _code(error), _text(error)
    )


def outcome_of(error: BaseException) -> Outcome:
    """The word for a call without an answer, or "" where a provider answered."""
    for each in _chain(error):
        name = type(each).__name__
        if isinstance(each, ConnectFailed) or name in _NOT_CONNECTED:
            return "connect-error"
        if isinstance(each, (ClientError, asyncio.IncompleteReadError, Unfinished)):
            return "broken"
        if name in _BROKEN:
            return "broken"
        if name in _LATE:
            return "timeout"
    return ""


def _chain(error: BaseException) -> Iterator[BaseException]:
    seen: set[int] = set()
    now: BaseException | None = error
    while now is not None and id(now) not in seen:
        seen.add(id(now))
        yield now
        now = now.__cause__ or now.__context__


def _text(error: BaseException) -> str:
    said = getattr(error, "message", None) or str(error) or type(error).__name__
    return _PREFIX.sub("", str(said)).strip() or type(error).__name__


def _code(error: BaseException) -> str:
    if type(error).__name__ == "ContextWindowExceededError":
        return "context_length_exceeded"
    code = getattr(error, "code", None)
    return code if isinstance(code, str) and code else "upstream_error"


def _said(error: BaseException) -> bytes | None:
    """The provider's own body, where an exception still has it."""
    for each in _chain(error):
        body = getattr(each, "body", None)
        if isinstance(body, dict) and body:
            inner = body if "error" in body else {"error": body}
            return json.dumps(inner, ensure_ascii=False, default=str).encode()
        text = _text(each)
        at = text.find("{")
        if at >= 0:
            try:
                data, _ = json.JSONDecoder().raw_decode(text[at:])
            except ValueError:
                continue
            if isinstance(data, dict) and "error" in data:
                return json.dumps(data, ensure_ascii=False).encode()
    return None


def _retry_after(error: BaseException) -> list[tuple[str, str]]:
    for each in _chain(error):
        for source in (each, getattr(each, "response", None)):
            headers = getattr(source, "headers", None) or getattr(
                source, "litellm_response_headers", None
            )
            if headers is not None and hasattr(headers, "items"):
                found = [(k.lower(), v) for k, v in headers.items() if k.lower() in _PASSED]
                if found:
                    return found
    return []


def _body(status: int, code: str, message: str) -> bytes:
    return json.dumps(envelope(status, code, message, None), ensure_ascii=False).encode()


def in_stream(error: BaseException) -> bytes:
    """The error object of a failure after a stream has begun."""
    head, body = told(error)
    return body or _body(head.status, "upstream_failed", _text(error))
