"""Messages, answers and errors as objects of litellm's own, for callbacks (hooks.py alone)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import litellm
from litellm import exceptions
from litellm.types.llms.openai import ResponseAPIUsage, ResponsesAPIResponse

from gateway.bridge import content
from gateway.bridge.payload import REDACTED, Event, times, usage
from gateway.config.config import Dialect

_HIDDEN_MESSAGES: Final = [{"role": "user", "content": REDACTED}]
_HIDDEN_ANSWER: Final = {"role": "assistant", "content": REDACTED}
_ERRORS: Final[Mapping[int, Any]] = {
    400: exceptions.BadRequestError,
    401: exceptions.AuthenticationError,
    404: exceptions.NotFoundError,
    429: exceptions.RateLimitError,
    503: exceptions.ServiceUnavailableError,
    504: exceptions.Timeout,
}


def answered(event: Event) -> tuple[Any, Any]:
    """(messages, response object) of a request: litellm's word for "redacted" without content."""
    dialect, messages, body = _dialect(event), None, None
    if event.content is not None:
        messages = content.messages(event.content, dialect)
        body = content.answer(event.content, dialect)
    body = body if isinstance(body, dict) else {}
    return messages or _HIDDEN_MESSAGES, _MAKE.get(dialect, _chat)(event, body)


def failed(event: Event, *, first: bool = False) -> Exception:
    """The exception that litellm would have raised; of the first attempt, or of the last."""
    record = event.record
    outcome = record.attempts[0 if first else -1].outcome if record.attempts else ""
    said = outcome.removeprefix("http-")
    status = int(said) if said.isdigit() else record.status if record.status >= 400 else 500
    kind = _ERRORS.get(status, exceptions.InternalServerError)
    made: Exception = kind(
        message=outcome or record.error or record.outcome,
        llm_provider=event.provider,
        model=event.model,
    )
    return made


def _chat(event: Event, body: dict[str, Any]) -> Any:
    choices = body.get("choices")
    if not choices and isinstance(body.get("content"), list):  # an Anthropic message
        text = "".join(str(block.get("text", "")) for block in body["content"])
        message = {"role": "assistant", "content": text}
        choices = [{"index": 0, "message": message, "finish_reason": body.get("stop_reason")}]
    if not choices:
        choices = [{"index": 0, "message": _HIDDEN_ANSWER, "finish_reason": "stop"}]
    return litellm.ModelResponse(**_common(event), choices=choices, usage=_usage(event))


def _text(event: Event, body: dict[str, Any]) -> Any:
    text = REDACTED
    for choice in body.get("choices") or ():
        message = choice.get("message") or {}  # of a stream, put together
        text = choice.get("text") or message.get("content") or ""
    choices = [{"index": 0, "text": text, "finish_reason": "stop"}]
    return litellm.TextCompletionResponse(**_common(event), choices=choices, usage=_usage(event))


def _vectors(event: Event, body: dict[str, Any]) -> Any:
    return litellm.EmbeddingResponse(
        model=event.model, data=body.get("data") or [], usage=_usage(event)
    )


def _response(event: Event, body: dict[str, Any]) -> Any:
    record = event.record
    prompt, completion = record.prompt_tokens or 0, record.completion_tokens or 0
    return ResponsesAPIResponse(
        id=str(body.get("id") or record.id),
        created_at=int(times(record)[0]),
        model=event.model,
        output=body.get("output") or [],
        usage=ResponseAPIUsage(
            input_tokens=prompt, output_tokens=completion, total_tokens=prompt + completion
        ),
    )


def _ranked(event: Event, body: dict[str, Any]) -> Any:
    return litellm.RerankResponse(
        id=str(body.get("id") or event.record.id), results=body.get("results") or []
    )


def _common(event: Event) -> dict[str, Any]:
    created = int(times(event.record)[0])
    return {"id": event.record.id, "model": event.record.requested_model, "created": created}


def _usage(event: Event) -> Any:
    return litellm.Usage(**usage(event.record))


def _dialect(event: Event) -> Dialect:
    return next((known for known in _MAKE if known == event.record.dialect), "chat")


_MAKE: Final[Mapping[Dialect, Callable[[Event, dict[str, Any]], Any]]] = {
    "chat": _chat,
    "messages": _chat,
    "completions": _text,
    "embeddings": _vectors,
    "responses": _response,
    "rerank": _ranked,
}
