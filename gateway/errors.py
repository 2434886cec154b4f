"""The errors that a client can see, as a tree with status and code.

GatewayError
├── BadRequest             400  the request itself: no JSON, a refused field, two different tasks
│   ├── UnknownTask        400  a task without a pin; names the tasks there are
│   ├── ContextTooLong     400  no deployment takes a prompt of this length
│   └── UnsupportedRoute   400  no deployment of the group speaks this dialect
├── Unauthorized           401  no key, or a key that is not in the file
├── Forbidden              403  the key does not open this name or page
├── NotFound               404  no such path, or no such name for this key
├── WrongMethod            405
├── TooLarge               413  the body is above the limit
├── Saturated              429  every deployment is at its cap; says when to come back
├── EngineFailed           502  every candidate failed, or broke off
│   └── Misconfigured      502  the engine refused the gateway's own key, or redirected
├── NothingServes          503  every deployment rests or needs what is not there
├── Draining               503  the gateway is stopping
└── EngineTimedOut         504  no content within the deployment's limit

A message says what happened and what to do; it never holds a key, a prompt or an internal address.
"""

from __future__ import annotations

import json
from typing import Any, ClassVar

_ANTHROPIC: frozenset[str] = frozenset({"messages", "count_tokens"})

# OpenAI's and Anthropic's own words for the kinds of error, by status.
_OPENAI_TYPES = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    429: "rate_limit_error",
    503: "service_unavailable_error",
}
_ANTHROPIC_TYPES = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    503: "overloaded_error",
    504: "timeout_error",
    529: "overloaded_error",
}


class GatewayError(Exception):
    """An error with the status and the stable code that a client sees."""

    status: ClassVar[int] = 500
    code: ClassVar[str] = "gateway_error"

    def __init__(
        self,
        message: str,
        *,
        code: str | None = None,
        status: int | None = None,
        retry_after_s: int | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.shown_code = code or self.code
        self.shown_status = status or self.status
        self.retry_after_s = retry_after_s
        self.own_body: bytes | None = None  # an engine's, in the dialect's envelope


class BadRequest(GatewayError):
    status, code = 400, "invalid_request"


class UnknownTask(BadRequest):
    code = "unknown_task"


class ContextTooLong(BadRequest):
    code = "context_length_exceeded"


class UnsupportedRoute(BadRequest):
    code = "unsupported_endpoint"


class Unauthorized(GatewayError):
    status, code = 401, "invalid_api_key"


class Forbidden(GatewayError):
    status, code = 403, "not_allowed"


class NotFound(GatewayError):
    status, code = 404, "not_found"


class WrongMethod(GatewayError):
    status, code = 405, "method_not_allowed"


class TooLarge(GatewayError):
    status, code = 413, "request_too_large"


class Saturated(GatewayError):
    status, code = 429, "saturated"


class EngineFailed(GatewayError):
    status, code = 502, "upstream_failed"


class Misconfigured(EngineFailed):
    code = "upstream_misconfigured"


class NothingServes(GatewayError):
    status, code = 503, "no_deployment_available"


class Draining(GatewayError):
    status, code = 503, "shutting_down"


class EngineTimedOut(GatewayError):
    status, code = 504, "upstream_timeout"


def is_anthropic(dialect: str | None) -> bool:
    """True where errors take Anthropic's shape."""
    return dialect in _ANTHROPIC


def error_type(status: int, dialect: str | None) -> str:
    """The dialect's word for a status, such as `rate_limit_error`."""
    table = _ANTHROPIC_TYPES if is_anthropic(dialect) else _OPENAI_TYPES
    return table.get(status) or ("invalid_request_error" if status < 500 else "api_error")


def envelope(status: int, code: str, message: str, dialect: str | None) -> dict[str, Any]:
    """The error object of a dialect, ready for JSON."""
    kind = error_type(status, dialect)
    if is_anthropic(dialect):
        return {"type": "error", "error": {"type": kind, "message": message, "code": code}}
    return {"error": {"message": message, "type": kind, "param": None, "code": code}}


def body(error: GatewayError, dialect: str | None = None) -> bytes:
    """The JSON body of an error, in the dialect of the path it answers."""
    if error.own_body is not None:
        return error.own_body
    data = envelope(error.shown_status, error.shown_code, error.message, dialect)
    return json.dumps(data, ensure_ascii=False).encode()


def headers(error: GatewayError) -> list[tuple[bytes, bytes]]:
    """The headers that go with an error: content type, length is the caller's, Retry-After."""
    found = [(b"content-type", b"application/json")]
    if error.retry_after_s is not None:
        found.append((b"retry-after", b"%d" % error.retry_after_s))
    return found
