"""Log lines of one look: ours by structlog, and uvicorn's and LiteLLM's through the same renderer.

The event is a fixed noun, the rest are fields. `configure` is called once, by a process's
outermost function; nobody else sets handlers or levels.
"""

from __future__ import annotations

import logging
import re
import sys
from collections.abc import MutableMapping
from typing import Any, TextIO

import structlog
from structlog.typing import EventDict, Processor

LEVELS = {"debug": 10, "info": 20, "warning": 30, "error": 40}

# Libraries that bring handlers of their own: theirs go, so that each line is written once.
FOREIGN = (
    "uvicorn",
    "uvicorn.error",
    "uvicorn.access",
    "LiteLLM",
    "LiteLLM Proxy",
    "LiteLLM Router",
)

# Fields that would carry a secret or a client's text. No call of ours has them; a mistake is
# taken out here rather than kept on a disk.
NEVER = frozenset(
    {"api_key", "authorization", "body", "headers", "key", "master_key", "messages", "prompt"}
)
_SECRET = re.compile(r"(?i)\b(bearer\s+|sk-|api[_-]key[\"']?\s*[=:]\s*[\"']?)[\w.~+/=-]{4,}")


def configure(level: str = "info", *, json: bool = False, stream: TextIO | None = None) -> None:
    """Send every line of this process to `stream` (stderr), as text or as one JSON object each.

    Lines below `level` cost next to nothing: they are dropped before any field is looked at.
    """
    out = sys.stderr if stream is None else stream
    number = LEVELS[level]
    shape = _shape(json=json, colours=out.isatty())
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            *shape,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(number),
        logger_factory=structlog.WriteLoggerFactory(out),
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(out)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[
                structlog.stdlib.add_log_level,
                structlog.stdlib.add_logger_name,
                _without_secrets,
            ],
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *shape],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    # Libraries' own chatter is ours to read only when we ask for debug.
    root.setLevel(max(number, LEVELS["warning"]) if number > LEVELS["debug"] else number)
    for name in FOREIGN:
        library = logging.getLogger(name)
        library.handlers.clear()
        library.propagate = True


def _shape(*, json: bool, colours: bool) -> list[Processor]:
    """The last steps of every line: its time, what it may not hold, how it looks."""
    return [
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        _without_forbidden_fields,
        structlog.processors.format_exc_info,
        structlog.processors.JSONRenderer(default=str)
        if json
        else structlog.dev.ConsoleRenderer(colors=colours, pad_event_to=0, pad_level=False),
    ]


def _without_forbidden_fields(_: Any, __: str, event: EventDict) -> EventDict:
    """Blank what a line may never hold. The usual line has none of them and is not copied."""
    for name in NEVER.intersection(event):
        event[name] = "[left out]"
    return event


def _without_secrets(_: Any, __: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Blank what looks like a key in a library's line: its text is not ours to choose."""
    event["event"] = _SECRET.sub(r"\1[left out]", str(event.get("event", "")))
    return event
