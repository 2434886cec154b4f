"""What: from bytes to a Request. The second step of a request's way."""

from __future__ import annotations

from collections.abc import Mapping

from gateway import body as body_of
from gateway.exchange import Request
from gateway.fit import answer_limit
from gateway.inbound import HeaderMap
from gateway.routing.facts import RequestFacts
from gateway.trace import Trace

# The client's headers that may go up, beside our own.
_UP = (b"accept", b"traceparent", b"tracestate", b"anthropic-version", b"anthropic-beta")


def parse(body: bytes, headers: HeaderMap, trace: Trace, affinity: Mapping[str, str]) -> Request:
    """The request in a body. Raises BadRequest with what is wrong, never with what it holds."""
    fields = body_of.decode(body)
    read = body_of.read
    options = read(fields, "stream_options", dict) or {}
    no_fallback = read(fields, "disable_fallbacks", bool) or body_of.no_fallback(headers)
    fields.pop("disable_fallbacks", None)  # ours to read, not the engine's
    model = read(fields, "model", str)
    trace.stream = bool(read(fields, "stream", bool))
    trace.slot_wait = headers.get(b"x-slot-wait")
    return Request(
        id=trace.id,
        dialect=trace.dialect,
        client=trace.client,
        fields=fields,
        model=model,
        task=body_of.task_of(fields, headers.get(b"x-task"), model),
        stream=trace.stream,
        wants_usage=bool(options.get("include_usage")),
        facts=RequestFacts(
            dialect=trace.dialect,
            prompt_tokens=body_of.low_estimate(fields, body),
            max_tokens=answer_limit(fields),
            fallbacks=not no_fallback,
            callers=body_of.callers(affinity, headers, trace.client.name) if affinity else {},
        ),
        headers={name: headers[name] for name in _UP if name in headers},
    )
