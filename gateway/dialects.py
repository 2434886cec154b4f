"""What each dialect looks like on the wire: its paths, its terminator, its error events."""

from __future__ import annotations

import msgspec

from gateway.config.config import Dialect

PATHS: dict[str, Dialect] = {
    "/chat/completions": "chat",
    "/completions": "completions",
    "/embeddings": "embeddings",
    "/rerank": "rerank",
    "/responses": "responses",
    "/messages": "messages",
    "/messages/count_tokens": "count_tokens",
}
SUFFIXES: dict[Dialect, str] = {dialect: path for path, dialect in PATHS.items()}
# Where a client states how long the answer may become.
LIMIT_FIELDS = ("max_completion_tokens", "max_tokens", "max_output_tokens")
# Dialects whose streams carry usage only when asked.
ASKS_FOR_USAGE: frozenset[Dialect] = frozenset({"chat", "completions"})

DONE_EVENT = b"data: [DONE]\n\n"
# A comment: every SSE parser skips it. Its exact bytes are held by a test.
HEARTBEAT = b": keep-alive\n\n"


def error_event(dialect: Dialect, body: bytes) -> bytes:
    """An error body as the event that a stream of the dialect ends with."""
    if dialect == "responses":
        error = msgspec.json.decode(body).get("error", {})
        named = {"type": "error", "code": error.get("code"), "message": error.get("message")}
        body = msgspec.json.encode(named | {"param": None})
    prefix = b"" if dialect in ASKS_FOR_USAGE else b"event: error\n"
    return prefix + b"data: " + body.replace(b"\n", b" ") + b"\n\n"
