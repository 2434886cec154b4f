"""Judge: what an engine's answer means for routing, before the commit point.

    verdict     when                                        what follows
    ok          2xx                                         the answer goes to the client
    retry       408, 429, 5xx, an error event               counts; next attempt
    throttled   429 or 503 with Retry-After                 rests that long, not counted
    loading     503 while the model loads                   a short rest, not counted
    overflow    "prompt too long", in any wording           context fallbacks, else 400
    client      400, 403, 404, 413, 415, 422 and the like   back to the client as the engine said it
    operator    401, 3xx                                    next candidate; nothing is counted
    timeout     no answer, or no content, within the limit  counts; next candidate, not the same
    slot        no lease, or a swap ended it                not counted; next candidate, another

Pure, and shared by relay and bridge.
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass
from datetime import UTC
from email.utils import parsedate_to_datetime
from typing import Any, Literal

from gateway.config.config import Deployment, Dialect
from gateway.errors import GatewayError, is_anthropic
from gateway.exchange import AttemptFailed, GroupFailed, Headers, TimedOut
from gateway.routing.health import Health

Kind = Literal[
    "ok", "retry", "throttled", "loading", "overflow", "client", "operator", "timeout", "slot"
]

# How engines say that a prompt (with its answer) does not fit, in any status or shape: vLLM,
# SGLang, llama.cpp, llama-cpp-python, Ollama, TEI, Anthropic and OpenAI, as captured or reported.
_OVERFLOW = re.compile(
    r"context_length_exceeded|exceed_context_size_error|maximum context length"
    r"|longer than the (maximum )?model('s)? (context )?length|model's context length is only"
    r"|exceeds? (the )?(available |maximum )?context (size|length|window)"
    r"|exceed context window|prompt is too long|input is too long|input length exceeds"
    r"|is too large to process|inputs?`? must have less than \d+ tokens"
    r"|cannot be greater than max_model_len|reduce the length of the (input|messages|prompt)",
    re.IGNORECASE,
)
_OVERFLOW_STATUSES = frozenset({400, 413, 422, 500})
_LOADING = re.compile(r"loading model|model is (still )?loading|is loading", re.IGNORECASE)
# What must not reach a client: file paths, and addresses inside the house.
_INNER = re.compile(
    r"https?://[^\s\"'<>]+|(?<![\w.])(?:/[\w.+-]+){2,}/?"
    r"|\b\d{1,3}(?:\.\d{1,3}){3}(?::\d+)?\b|\b[\w.-]+:\d{2,5}\b(?!\d)"
)
_MAX_TEXT = 2048
_MAX_REST_S = 3600.0  # however long a Retry-After
LOADING_REST_S = 1.0  # how soon a loading engine is asked again where it names no time
_RETRIED = frozenset({408, 425, 429})


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What an answer means, and what the client would be told if it is the last one."""

    kind: Kind
    status: int
    message: str = ""
    code: str = ""
    retry_after_s: float | None = None
    body: bytes | None = None  # the engine's own body, where it has the dialect's envelope
    outcome: str = "ok"  # a word for the record's attempt
    stays: bool = False  # no other group may take the request: a swap is no failure


OK = Verdict(kind="ok", status=200)


def judge_failure(failed: AttemptFailed) -> Verdict:
    """The verdict on an attempt that brought no whole answer."""
    late = isinstance(failed, TimedOut)
    return Verdict(
        kind="timeout" if late else "retry",
        status=504 if late else 502,
        code="upstream_timeout" if late else "upstream_failed",
        message=_NO_ANSWER[failed.outcome],
        outcome=failed.outcome,
    )


_NO_ANSWER = {
    "connect-error": "the engine cannot be reached",
    "broken": "the engine's answer broke off",
    "timeout": "the engine gave nothing within its time limit",
}


def judge(
    status: int,
    headers: Headers,
    body: bytes,
    dialect: Dialect,
    now: float,
    *,
    outcome: str = "",
) -> Verdict:
    """The verdict on an answer whose status is not 2xx, or on an error event (status from it)."""
    message, code, enveloped = _read_error(body, is_anthropic(dialect))
    waits = retry_after_s(headers, now)
    kind = _kind(status, f"{message} {code}", waits)
    outcome = outcome or f"http-{status}"
    if kind == "loading" and waits is None:
        waits = LOADING_REST_S
    if kind == "overflow":
        status = 400
        enveloped = enveloped and not is_anthropic(dialect) and code == "context_length_exceeded"
        code = "context_length_exceeded"
    return Verdict(
        kind=kind,
        status=status,
        message=without_inner(message)[:_MAX_TEXT] or f"the engine answered {status}",
        code=code or f"upstream_{status}",
        retry_after_s=waits,
        body=body if enveloped and not _INNER.search(message) else None,
        outcome=outcome,
    )


def _kind(status: int, text: str, waits: float | None) -> Kind:
    if status in _OVERFLOW_STATUSES and _OVERFLOW.search(text):
        return "overflow"
    if status == 503 and _LOADING.search(text):
        return "loading"
    if status in (429, 503) and waits is not None:
        return "throttled"
    if status >= 500 or status in _RETRIED:
        return "retry"
    if status == 401 or 300 <= status < 400:
        return "operator"
    return "client"


def judge_event(data: bytes, dialect: Dialect, now: float) -> Verdict:
    """The verdict on an error event inside a 200 stream: the status is the one it names."""
    status = 502
    try:
        event = json.loads(data)
        error = event.get("error") or (event.get("response") or {}).get("error") or event
        code = error.get("code") if isinstance(error, dict) else None
        if isinstance(code, int) and 400 <= code < 600:
            status = code
        elif isinstance(error, dict) and error.get("type") == "overloaded_error":
            status = 529
    except (ValueError, AttributeError, RecursionError):
        pass  # not the shape we know: still an error, and a retryable one
    return judge(status, [], data, dialect, now, outcome=f"error-event-{status}")


def retry_after_s(headers: Headers, now: float) -> float | None:
    """Seconds to wait, from Retry-After (seconds or a date) or retry-after-ms."""
    for name, value in headers:
        text = value.decode("latin-1").strip()
        if name == b"retry-after-ms" and text.replace(".", "", 1).isdigit():
            return float(text) / 1000.0
        if name == b"retry-after":
            if text.replace(".", "", 1).isdigit():
                return float(text)
            try:
                at = parsedate_to_datetime(text)
            except ValueError:
                return None
            at = at if at.tzinfo is not None else at.replace(tzinfo=UTC)
            return max(0.0, at.timestamp() - now)
    return None


def without_inner(text: str) -> str:
    """An engine's text without file paths and addresses."""
    return _INNER.sub("[...]", text)


def _read_error(body: bytes, anthropic: bool) -> tuple[str, str, bool]:
    """Message, code, and whether the body has the dialect's own envelope."""
    try:
        data = json.loads(body)
    except (ValueError, RecursionError):
        text = body[: 4 * _MAX_TEXT].decode("utf-8", "replace")
        return re.sub(r"<[^>]*>|\s+", " ", text).strip(), "", False
    if not isinstance(data, dict):
        return str(data)[:_MAX_TEXT], "", False
    inner: Any = data.get("error")
    if inner is None and isinstance(data.get("response"), dict):
        inner = data["response"].get("error")  # response.failed
    if isinstance(inner, dict):
        has_own = data.get("type") == "error" if anthropic else "error" in data
        enveloped = has_own and isinstance(inner.get("message"), str) and "type" in inner
        return _text(inner.get("message")), _code(inner), enveloped
    if isinstance(inner, str):
        return inner, "", False
    return _text(data.get("message") or data.get("detail") or data), _code(data), False


def _text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _code(error: dict[str, Any]) -> str:
    code = error.get("code") or error.get("type")
    return code if isinstance(code, str) and not code.isdigit() else ""


class EngineSaid(GatewayError):
    """An engine's refusal as the client sees it: its own status, and its own body where that fits.

    An engine that refuses the gateway's key, or redirects, is the operator's fault: 502.
    """

    def __init__(self, verdict: Verdict) -> None:
        operator = verdict.kind == "operator"
        super().__init__(
            "the engine refused the gateway: its address or key in the file is wrong"
            if operator
            else verdict.message,
            code="upstream_misconfigured" if operator else verdict.code,
            status=502 if operator else verdict.status,
            retry_after_s=(
                None if verdict.retry_after_s is None else max(1, math.ceil(verdict.retry_after_s))
            ),
        )
        self.verdict = verdict
        self.own_body = None if operator else verdict.body


def gave_up(verdict: Verdict) -> EngineSaid | GroupFailed:
    """What a group ends with that could not serve: another is tried, unless the request stays."""
    said = EngineSaid(verdict)
    return said if verdict.stays else GroupFailed(said, overflow=verdict.kind == "overflow")


def tell(
    health: Health, deployment: Deployment, verdict: Verdict, *, trial: bool, now: float
) -> None:
    """What a verdict means for the health of its deployment; see the table above."""
    if verdict.kind in ("ok", "client", "overflow"):
        health.succeeded(deployment.id, trial=trial)
    elif verdict.kind in ("retry", "timeout"):
        health.failed(deployment, now)
    elif verdict.kind in ("throttled", "loading"):
        seconds = min(verdict.retry_after_s or 0.0, _MAX_REST_S)
        health.rest(deployment.id, now, seconds, by_own_word=verdict.kind == "throttled")
