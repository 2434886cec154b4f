"""What: from bytes to a Request. The second step of a request's way."""

from __future__ import annotations

from collections.abc import Mapping

from gateway import body as body_of
from gateway.delivery import Receive
from gateway.dialects import LIMIT_FIELDS
from gateway.errors import BadRequest
from gateway.exchange import Request
from gateway.routing.choose import RequestFacts
from gateway.routing.table import TASK_PREFIX
from gateway.trace import Trace

# The client's headers that may go up, beside our own.
_UP = (b"accept", b"traceparent", b"tracestate", b"anthropic-version", b"anthropic-beta")
_DEFAULT_MAX_TOKENS = 1000


class ClientLeft(Exception):
    """The client closed its connection; nobody reads an answer any more."""


async def read_body(headers: Mapping[bytes, bytes], receive: Receive, max_bytes: int) -> bytes:
    """The whole body, inflated. Raises TooLarge without reading the rest; ClientLeft."""
    declared = headers.get(b"content-length", b"0")
    if not declared.isdigit() or int(declared) > max_bytes:
        raise body_of.too_large(max_bytes)
    parts: list[bytes] = []
    size, more = 0, True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientLeft
        parts.append(message.get("body", b""))
        size += len(parts[-1])
        more = message.get("more_body", False)
        if size > max_bytes:
            raise body_of.too_large(max_bytes)
    body = parts[0] if len(parts) == 1 else b"".join(parts)
    encoding = headers.get(b"content-encoding")
    return body if encoding is None else body_of.inflate(body, encoding, max_bytes)


def parse(body: bytes, headers: Mapping[bytes, bytes], trace: Trace) -> Request:
    """The request in a body. Raises BadRequest with what is wrong, never with what it holds."""
    fields = body_of.decode(body)
    read = body_of.read
    options = read(fields, "stream_options", dict) or {}
    no_fallback = read(fields, "disable_fallbacks", bool)
    fields.pop("disable_fallbacks", None)  # ours to read, not the engine's
    if headers.get(b"x-no-fallback", b"").lower() in (b"true", b"1", b"yes"):
        no_fallback = True
    model = read(fields, "model", str)
    trace.stream = bool(read(fields, "stream", bool))
    return Request(
        id=trace.id,
        dialect=trace.dialect,
        client=trace.client,
        fields=fields,
        model=model,
        task=_task(fields, headers, model),
        stream=trace.stream,
        wants_usage=bool(options.get("include_usage")),
        facts=RequestFacts(
            dialect=trace.dialect,
            prompt_tokens=body_of.low_estimate(fields, body),
            max_tokens=next((n for k in LIMIT_FIELDS if (n := read(fields, k, int))), None)
            or _DEFAULT_MAX_TOKENS,
            fallbacks=not no_fallback,
        ),
        headers={name: headers[name] for name in _UP if name in headers},
    )


def _task(fields: body_of.Fields, headers: Mapping[bytes, bytes], model: str | None) -> str | None:
    """The task of X-Task, metadata.task or a model name task/NAME; two that differ are refused."""
    said: set[str] = set()
    if b"x-task" in headers:
        said.add(headers[b"x-task"].decode("latin-1").strip())
    if "metadata" in fields:
        task = (body_of.read(fields, "metadata", dict) or {}).get("task")
        if isinstance(task, str):
            said.add(task)
    if model is not None and model.startswith(TASK_PREFIX):
        said.add(model.removeprefix(TASK_PREFIX))
    if len(said) > 1:
        raise BadRequest("the request names two different tasks: send one", code="two_tasks")
    return said.pop() if said else None
