"""Messages and answers for other people's callbacks, where `callback_content` is true.

`Tee` notes references to the bytes that pass: nothing is copied, decoded or kept beyond a bound on
the way. What they say is read in the callbacks' own process, by `messages` and `answer`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from gateway.bridge.payload import Content
from gateway.config.config import Dialect
from gateway.inbound import Headers, Inbound

MAX_BYTES = 1024 * 1024  # of a request, and of an answer; a larger one is left out
_ID = b"x-gateway-request-id"


class Tee:
    """Around one request and its answer; see inbound.py.

    Puts itself into `begun` by the request's id when its answer begins. Whoever makes the record,
    which always follows, takes it out.
    """

    def __init__(self, inbound: Inbound, begun: dict[str, Tee]) -> None:
        self._inbound, self._begun = inbound, begun
        self.path, self.headers = inbound.path, inbound.headers
        self.client_ip = inbound.client_ip
        self._request: list[bytes] | None = []
        self._answer: list[bytes] | None = []
        self._size = 0

    @property
    def full(self) -> bool:
        """True while the client is behind."""
        return self._inbound.full

    @property
    def on_left(self) -> Callable[[], None] | None:
        """What is called when the client leaves."""
        return self._inbound.on_left

    @on_left.setter
    def on_left(self, call: Callable[[], None] | None) -> None:
        self._inbound.on_left = call

    async def body(self, max_bytes: int) -> bytes:
        """What the client sends, noted."""
        body = await self._inbound.body(max_bytes)
        self._request = [body] if len(body) <= MAX_BYTES else None
        return body

    def start(self, status: int, headers: Headers) -> None:
        """The answer begins."""
        for name, value in headers:
            if name == _ID:
                self._begun[value.decode()] = self
        self._inbound.start(status, headers)

    def write(self, data: bytes, *, last: bool = False) -> None:
        """What the client is sent, noted."""
        self._size += len(data)
        if self._answer is not None:
            self._answer.append(data)
            if self._size > MAX_BYTES:
                self._answer = None
        self._inbound.write(data, last=last)

    async def drain(self) -> None:
        """Wait until the client has caught up."""
        await self._inbound.drain()

    def content(self) -> Content:
        """Both, as far as they were kept."""
        return Content(request=_text(self._request), answer=_text(self._answer))


def _text(parts: list[bytes] | None) -> str:
    return b"".join(parts or ()).decode("utf-8", "replace")


def messages(content: Content, dialect: Dialect) -> Any:
    """What the client said, as LiteLLM's `messages`; None where it cannot be read."""
    body = _json(content.request)
    if not isinstance(body, dict):
        return None
    if dialect in ("chat", "messages", "count_tokens"):
        return body.get("messages")
    said = body.get("prompt") or body.get("input") or body.get("query")
    return said if isinstance(said, list) else [{"role": "user", "content": said}]


def answer(content: Content, dialect: Dialect) -> Any:
    """The whole answer: the body, or what a stream's events add up to; None if neither."""
    body = _json(content.answer)
    if body is not None:
        return body
    events = [event for event in _events(content.answer) if isinstance(event, dict)]
    if dialect == "responses":
        ends = [e.get("response") for e in events if e.get("type") == "response.completed"]
        return ends[-1] if ends else None
    return _message(events) if events else None


def _message(events: list[dict[str, Any]]) -> dict[str, Any]:
    """A chat completion from the events of a chat, completions or messages stream."""
    text, reasoning, finish = "", "", None
    for event in events:
        for choice in event.get("choices") or ():
            delta = choice.get("delta") or {}
            text += delta.get("content") or choice.get("text") or ""
            reasoning += delta.get("reasoning_content") or delta.get("reasoning") or ""
            finish = choice.get("finish_reason") or finish
        delta = event.get("delta")
        if isinstance(delta, dict):  # Anthropic's
            text += delta.get("text") or ""
            reasoning += delta.get("thinking") or ""
            finish = delta.get("stop_reason") or finish
    message: dict[str, Any] = {"role": "assistant", "content": text}
    if reasoning:
        message["reasoning_content"] = reasoning
    return {"choices": [{"index": 0, "message": message, "finish_reason": finish}]}


def _events(text: str) -> Iterator[Any]:
    for line in text.replace("\r\n", "\n").replace("\r", "\n").split("\n"):
        if line.startswith("data:"):
            yield _json(line.removeprefix("data:").strip())


def _json(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError):
        return None
