"""A record as LiteLLM tells its loggers of a request: `kwargs` and the payload in it.

Only what a record holds, and the messages and the answer where the file allows that: no header and
no key is known here. Where LiteLLM would have content and none is given, its own word for that
stands (`REDACTED`). Pure data: nothing here imports litellm.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from gateway.config.config import Dialect
from gateway.records.record import Record

REDACTED: Final = "redacted-by-litellm"

CALL_TYPES: Final[Mapping[Dialect, str]] = {
    "chat": "acompletion",
    "completions": "atext_completion",
    "embeddings": "aembedding",
    "rerank": "arerank",
    "responses": "aresponses",
    "messages": "anthropic_messages",
    "count_tokens": "acount_tokens",
}


class Content(msgspec.Struct, frozen=True):
    """What the client sent and was sent, as bytes of text; "" where it grew too large."""

    request: str = ""
    answer: str = ""


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """One request that is over: its record, and what the file says of its deployment."""

    record: Record
    provider: str = ""
    model: str = ""  # the served name
    api_base: str = ""
    first_group: str | None = None  # of the first attempt; another one served after a fallback
    content: Content | None = None


def succeeded(record: Record) -> bool:
    """True where LiteLLM tells of a success: an answer, or the part that a client stayed for."""
    return record.outcome == "ok" or (record.outcome == "cancelled" and record.status == 200)


def times(record: Record) -> tuple[float, float | None, float]:
    """Begin, first content and end, in seconds since 1970."""
    begin = datetime.fromisoformat(record.at).timestamp()
    first = None if record.ttft_ms is None else begin + record.ttft_ms / 1000
    return begin, first, begin + record.duration_ms / 1000


def local(seconds: float) -> datetime:
    """A time as LiteLLM hands it over: local, without a zone."""
    return datetime.fromtimestamp(seconds, UTC).astimezone().replace(tzinfo=None)


def usage(record: Record) -> dict[str, Any]:
    """The tokens that the engine reported, as LiteLLM's usage."""
    prompt, completion = record.prompt_tokens or 0, record.completion_tokens or 0
    said: dict[str, Any] = {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
    }
    if record.cached_tokens is not None:
        said["prompt_tokens_details"] = {"cached_tokens": record.cached_tokens}
    if record.reasoning_tokens is not None:
        said["completion_tokens_details"] = {"reasoning_tokens": record.reasoning_tokens}
    return said


def kwargs(event: Event, messages: Any, response: Any) -> dict[str, Any]:
    """What every hook gets as `kwargs`. `exception` is the caller's to add."""
    record = event.record
    begin, first, end = times(record)
    metadata = _metadata(record) | {
        "model_group": record.group,
        "model_info": {"id": record.deployment},
        "deployment": event.model,
        "original_model_group": event.first_group,
        "attempted_fallbacks": int(event.first_group not in (None, record.group)),
    }
    return {
        "model": event.model,
        "messages": messages,
        "input": messages,
        "optional_params": {"stream": record.stream},
        "litellm_params": {
            "metadata": metadata,
            "litellm_metadata": None,
            "api_base": event.api_base,
            "custom_llm_provider": event.provider,
            "model_info": {"id": record.deployment},
            "litellm_call_id": record.id,
        },
        "litellm_call_id": record.id,
        "litellm_trace_id": record.id,
        "call_type": CALL_TYPES[_dialect(record)],
        "custom_llm_provider": event.provider,
        "stream": record.stream,
        "user": None,
        "cache_hit": None,
        "response_cost": 0.0,
        "start_time": local(begin),
        "end_time": local(end),
        "completion_start_time": local(end if first is None else first),
        "api_call_start_time": local(begin),
        "additional_args": {},
        "original_response": None,
        "standard_callback_dynamic_params": {},
        "standard_logging_object": _standard(event, messages, response),
        "signalbox_record": msgspec.to_builtins(record),
    }


def _standard(event: Event, messages: Any, response: Any) -> dict[str, Any]:
    """LiteLLM's StandardLoggingPayload."""
    record, tokens = event.record, usage(event.record)
    return {
        "id": record.id,
        "litellm_call_id": record.id,
        "trace_id": record.id,
        "session_id": "",
        "call_type": CALL_TYPES[_dialect(record)],
        "stream": record.stream,
        "custom_llm_provider": event.provider,
        **_outcome(event),
        **_clock(record),
        **_NO_CACHE_NO_COST,
        "model": f"{event.provider}/{event.model}" if event.provider else event.model,
        "model_group": record.group,
        "model_id": record.deployment,
        "model_parameters": {"stream": record.stream},
        "model_map_information": {"model_map_key": event.model, "model_map_value": None},
        "api_base": event.api_base,
        "metadata": _metadata(record) | {"usage_object": tokens},
        **{name: tokens[name] for name in ("total_tokens", "prompt_tokens", "completion_tokens")},
        "request_tags": [],
        "request_model_access_groups": [],
        "end_user": None,
        "requester_ip_address": record.client_ip,
        "user_agent": record.app,
        "messages": messages,
        "response": response,
        "guardrail_information": None,
        "standard_built_in_tools_params": None,
        "hidden_params": _hidden(event),
    }


# Nothing is cached here, and no price is known.
_NO_CACHE_NO_COST: Final[Mapping[str, Any]] = {
    "cache_hit": None,
    "cache_key": None,
    "saved_cache_cost": 0.0,
    "response_cost": 0.0,
    "cost_breakdown": None,
    "response_cost_failure_debug_info": None,
}


def _outcome(event: Event) -> dict[str, Any]:
    record, good = event.record, succeeded(event.record)
    word = "success" if good else "failure"
    left = "Client disconnected the request" if good and record.outcome == "cancelled" else None
    return {
        "status": word,
        "status_fields": {"llm_api_status": word, "guardrail_status": "not_run"},
        "error_str": record.error or left,
        "error_information": None if good else _error(event),
    }


def _clock(record: Record) -> dict[str, float]:
    begin, first, end = times(record)
    first = end if first is None else first
    return {
        "startTime": begin,
        "endTime": end,
        "completionStartTime": first,
        "response_time": first - begin,
    }


def _hidden(event: Event) -> dict[str, Any]:
    return {
        "model_id": event.record.deployment,
        "cache_key": None,
        "api_base": event.api_base,
        "response_cost": 0.0,
        "additional_headers": {},
        "litellm_overhead_time_ms": event.record.queue_ms,
        "batch_models": None,
        "batch_successful_requests": None,
        "batch_failed_requests": None,
        "litellm_model_name": event.model,
        "usage_object": None,
    }


def _metadata(record: Record) -> dict[str, Any]:
    return {
        "user_api_key_alias": record.client,
        "user_api_key_hash": None,
        "user_api_key_user_id": None,
        "user_api_key_team_id": None,
        "user_api_key_team_alias": None,
        "user_api_key_org_id": None,
        "user_api_key_end_user_id": None,
        "user_api_key_user_email": None,
        "user_api_key_request_route": None,
        "spend_logs_metadata": None,
        "requester_ip_address": record.client_ip,
        "requester_metadata": {"task": record.task, "tier": record.tier},
        "requester_custom_headers": None,
        "user_agent": record.app,
        "applied_guardrails": [],
    }


def _error(event: Event) -> dict[str, Any]:
    record = event.record
    last = record.attempts[-1].outcome if record.attempts else record.error
    return {
        "error_code": str(record.status),
        "error_class": record.error or record.outcome,
        "llm_provider": event.provider,
        "error_message": last or "",
        "traceback": "",
    }


def _dialect(record: Record) -> Dialect:
    return next((known for known in CALL_TYPES if known == record.dialect), "chat")
