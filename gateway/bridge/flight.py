"""One request under the stock LiteLLM proxy, from its arrival to the record that is made of it.

The proxy tells of a request in pieces, as plain dictionaries; here they become a Record. What it
counts itself (an answer that broke off, reasoning in a stream) is an estimate or left out: a
record holds what the engine reported.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

from gateway.bridge.stock import Names, Served
from gateway.config.config import Dialect
from gateway.records.record import Attempt, Outcome, Record, Usage, clean_text
from gateway.routing.table import TASK_PREFIX

# LiteLLM's word for each kind of call, as it comes before the call and in events.
DIALECTS: Final[Mapping[str, Dialect]] = {
    "acompletion": "chat",
    "completion": "chat",
    "atext_completion": "completions",
    "text_completion": "completions",
    "aembedding": "embeddings",
    "embedding": "embeddings",
    "embeddings": "embeddings",
    "arerank": "rerank",
    "rerank": "rerank",
    "aresponses": "responses",
    "responses": "responses",
    "anthropic_messages": "messages",
}

# The proxy's own words for the master key.
_MASTER: Final = "litellm_proxy_master_key"

_CODES: Final[Mapping[int, str]] = {
    400: "invalid_request",
    401: "invalid_api_key",
    403: "not_allowed",
    404: "not_found",
    413: "request_too_large",
    429: "saturated",
}
# By the name of LiteLLM's exception: (code of the error, outcome of the attempt).
_ERRORS: Final[Mapping[str, tuple[str, str]]] = {
    "Timeout": ("upstream_timeout", "timeout"),
    "APIConnectionError": ("upstream_failed", "broken"),
    "ContextWindowExceededError": ("context_length_exceeded", "http-400"),
    "ProxyModelNotFoundError": ("model_not_found", ""),
}


@dataclass(slots=True, kw_only=True)
class Flight:
    """What is known of one request while the proxy serves it. Times are seconds since 1970."""

    id: str
    at: float
    dialect: Dialect
    client: str
    client_ip: str
    app: str
    requested_model: str | None
    task: str | None
    stream: bool
    attempts: list[Attempt] = field(default_factory=list)
    served: Served | None = None  # the deployment of the latest attempt
    asked: Served | None = None  # that of the first
    running_since: float | None = None  # of the attempt that runs now
    first: float | None = None  # the first content of a stream
    usage: Usage | None = None
    usage_note: str | None = None
    estimated: bool = False

    def attempting(self, served: Served, now: float) -> None:
        """An attempt begins. One that is told twice (a translated call) is one attempt."""
        if self.running_since is not None and served == self.served:
            return
        self.served, self.running_since = served, now
        self.asked = self.asked or served

    def attempted(self, outcome: str, now: float) -> None:
        """The attempt that runs is over."""
        if self.running_since is None or self.served is None:
            return
        ms = round((now - self.running_since) * 1000, 3)
        one = Attempt(deployment=self.served.deployment, outcome=outcome, ms=ms)
        self.attempts.append(one)
        self.running_since = None

    def told_usage(self, said: Mapping[str, Any], *, estimated: bool) -> None:
        """What the proxy says was used; `estimated` where the proxy counted it itself."""
        prompt, completion = said.get("prompt_tokens"), said.get("completion_tokens")
        if not prompt and not completion:
            if self.stream and self.dialect == "completions":
                self.usage_note = "the stock proxy asks no usage of completions streams"
            return
        if self.dialect in ("embeddings", "rerank"):
            completion = completion or None  # the proxy's own 0: nothing is written there
        # With `text_tokens` the details are the proxy's own count, not the engine's.
        own = _inner(said, "completion_tokens_details", "text_tokens") is not None
        reasoning = _inner(said, "completion_tokens_details", "reasoning_tokens")
        cached = _inner(said, "prompt_tokens_details", "cached_tokens")
        self.usage = Usage(
            prompt_tokens=prompt,
            cached_tokens=None if estimated else cached,
            completion_tokens=completion,
            reasoning_tokens=None if own or estimated else reasoning,
        )
        self.estimated = estimated

    def record(
        self,
        names: Names,
        *,
        outcome: Outcome,
        status: int,
        ended: float,
        error: str | None = None,
    ) -> Record:
        """The record of the request, which ended at `ended`."""
        usage = self.usage or Usage()
        task = None if self.task is None else f"{TASK_PREFIX}{self.task}"
        route = names.route(task) or names.route(self.requested_model)
        group = self.served.group if self.served else route.group if route else None
        asked = self.asked.group if self.asked else group
        return Record(
            id=self.id,
            at=_utc(self.at),
            client=self.client,
            client_ip=self.client_ip,
            app=self.app,
            dialect=self.dialect,
            requested_model=self.requested_model,
            task=self.task,
            tier=route.tier if route else names.tier(asked),
            group=group,
            deployment=self.served.deployment if self.served else None,
            upstream=self.served.upstream if self.served else None,
            attempts=self.attempts,
            stream=self.stream,
            status=status,
            outcome=outcome,
            error=error,
            queue_ms=0.0,  # the proxy does not queue
            ttft_ms=None if self.first is None else round((self.first - self.at) * 1000, 3),
            duration_ms=round((ended - self.at) * 1000, 3),
            prompt_tokens=usage.prompt_tokens,
            cached_tokens=usage.cached_tokens,
            completion_tokens=usage.completion_tokens,
            reasoning_tokens=usage.reasoning_tokens,
            tok_s=usage.tok_s(ended - (self.first or self.at)),
            estimated=self.estimated,
            usage_note=self.usage_note,
            config=names.revision,
        )


def arrived(data: Mapping[str, Any], call_type: str, now: float) -> Flight | None:
    """A request that passed the proxy's key check; None for a kind this project does not record."""
    dialect, call_id = DIALECTS.get(call_type), data.get("litellm_call_id")
    if dialect is None or not isinstance(call_id, str):
        return None
    meta = metadata(data)
    headers = meta.get("headers")
    said = headers if isinstance(headers, Mapping) else {}
    model = clean_text(data["model"]) if isinstance(data.get("model"), str) else None
    return Flight(
        id=call_id,
        at=now,
        dialect=dialect,
        client=_client(meta),
        client_ip=clean_text(meta.get("requester_ip_address")),
        app=clean_text(said.get("x-client") or said.get("user-agent")),
        requested_model=model or None,
        task=_task(said, data, model),
        stream=bool(data.get("stream")),
    )


def metadata(data: Mapping[str, Any]) -> Mapping[str, Any]:
    """What the proxy knows of a request; under one of two names, by route."""
    for name in ("litellm_metadata", "metadata"):
        found = data.get(name)
        if isinstance(found, Mapping) and "user_api_key_hash" in found:
            return found
    return {}


def failure(error: BaseException) -> tuple[int, str, str]:
    """(status, code, outcome of the attempt) of an exception that the proxy answers with."""
    given = getattr(error, "status_code", None) or getattr(error, "code", None)
    status = int(str(given)) if str(given).isdigit() else 500
    code = _CODES.get(status, "invalid_request" if status < 500 else "upstream_failed")
    outcome = f"http-{status}"
    name = type(error).__name__
    if name == "InternalServerError" and "Connection error" in str(error):
        outcome = "connect-error"  # LiteLLM has no exception of its own for it
    return (status, *_ERRORS.get(name, (code, outcome)))


def _client(meta: Mapping[str, Any]) -> str:
    alias = clean_text(meta.get("user_api_key_alias"))
    if alias:
        return alias
    return "master" if meta.get("user_api_key_hash") == _MASTER else "unnamed"


def _task(headers: Mapping[str, Any], data: Mapping[str, Any], model: str | None) -> str | None:
    """The task as the client names it. The stock proxy routes by the model name alone."""
    own = data.get("metadata")
    said = headers.get("x-task") or (own.get("task") if isinstance(own, Mapping) else None)
    if said is None and model is not None and model.startswith(TASK_PREFIX):
        said = model.removeprefix(TASK_PREFIX)
    return clean_text(said) or None if isinstance(said, str) else None


def _inner(said: Mapping[str, Any], block: str, name: str) -> int | None:
    details = said.get(block)
    found = details.get(name) if isinstance(details, Mapping) else None
    return found if isinstance(found, int) else None


def _utc(at: float) -> str:
    said = datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds")
    return said.replace("+00:00", "Z")
