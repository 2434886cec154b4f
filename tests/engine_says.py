"""What engines say when all is well: events and bodies of each dialect, and usage in every form."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from tests.engine_answers import Answer, Step, reply, stream
from tests.engine_wire import Received

UsageForm = Literal["asked", "always", "never", "running"]
DONE = b"data: [DONE]\n\n"


def event(data: dict[str, Any] | str, name: str | None = None) -> bytes:
    """One SSE event as vLLM writes it; with `name`, as Anthropic's and Responses' streams do."""
    text = data if isinstance(data, str) else json.dumps(data, ensure_ascii=False)
    return (f"event: {name}\n" if name else "").encode() + f"data: {text}\n\n".encode()


def usage(prompt: int = 7, completion: int = 3, **details: Any) -> dict[str, Any]:
    """OpenAI's usage object; `details` are put in beside the totals, as given."""
    total = {"prompt_tokens": prompt, "completion_tokens": completion}
    return {**total, "total_tokens": prompt + completion, **details}


def delta(
    content: str | None = None,
    *,
    finish: str | None = None,
    model: str = "served",
    usage: dict[str, Any] | None = None,
    **more: Any,
) -> bytes:
    """One chat chunk. `more` goes into the delta: role, reasoning, tool_calls, ..."""
    inner = {**more} if content is None else {**more, "content": content}
    choice = {"index": 0, "delta": inner, "finish_reason": finish}
    return event(_chunk([choice], model, usage))


def usage_event(usage: dict[str, Any], model: str = "served") -> bytes:
    """The last chunk, with usage and no choices."""
    return event(_chunk([], model, usage))


def _chunk(
    choices: list[dict[str, Any]], model: str, usage: dict[str, Any] | None
) -> dict[str, Any]:
    data: dict[str, Any] = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1}
    data |= {"model": model, "choices": choices}
    return data if usage is None else {**data, "usage": usage}


def chat_events(
    words: Sequence[str], *, model: str = "served", finish: str = "stop"
) -> list[bytes]:
    """Role chunk, one chunk a word, finish chunk: no usage and no terminator."""
    role = delta("", role="assistant", model=model)
    return [role, *(delta(w, model=model) for w in words), delta(finish=finish, model=model)]


@dataclass(frozen=True)
class Say:
    """Answers any dialect by path, streamed or not as asked. Use it as an engine's answer."""

    words: tuple[str, ...] = ("Hello", " from", " here")
    model: str | None = None  # None: the name that was asked for
    usage: UsageForm = "asked"
    tokens: tuple[int, int] = (7, 3)  # prompt, completion
    before: tuple[Step, ...] = ()  # steps before anything is said
    between: tuple[Step, ...] = ()  # steps before each word of a stream

    def __call__(self, received: Received) -> Answer:
        """The answer to this request."""
        dialect = received.path.split("?")[0].rpartition("/v1/")[2]
        make = BODIES.get(dialect, chat_body)
        if received.streams:
            return (*self.before, *stream(self._events(dialect, received)))
        return (*self.before, *reply(make(self, received)))

    def _events(self, dialect: str, received: Received) -> Iterable[bytes | Step]:
        if dialect == "messages":
            return self._between(message_events(self, received), b"content_block_delta")
        if dialect == "responses":
            return self._between(response_events(self, received), b"output_text.delta")
        events = [
            *(text_events if dialect == "completions" else chat_events)(
                self.words, model=self.name(received)
            )
        ]
        total = usage(*self.tokens)
        if self.usage == "running":
            prompt, last = self.tokens
            events = [_with_usage(e, usage(prompt, min(n, last))) for n, e in enumerate(events)]
        if self.usage in ("always", "running") or (self.usage == "asked" and received.wants_usage):
            events.append(usage_event(total, self.name(received)))
        return self._between([*events, DONE], b'"choices"')

    def _between(self, events: list[bytes], mark: bytes) -> Iterable[bytes | Step]:
        for number, one in enumerate(events):
            if number and mark in one:
                yield from self.between
            yield one

    def name(self, received: Received) -> str:
        """The model's name in the answer."""
        return self.model or str(received.json.get("model"))


def _with_usage(data: bytes, total: dict[str, Any]) -> bytes:
    return event({**json.loads(data.removeprefix(b"data: ")), "usage": total})


def text_events(
    words: Sequence[str], *, model: str = "served", finish: str = "stop"
) -> list[bytes]:
    """A completions stream: one chunk a word, then the finish chunk."""
    choices = [{"index": 0, "text": w, "finish_reason": None} for w in words]
    choices.append({"index": 0, "text": "", "finish_reason": finish})
    base = {"id": "cmpl-1", "object": "text_completion", "created": 1, "model": model}
    return [event({**base, "choices": [c]}) for c in choices]


def message_events(say: Say, received: Received) -> list[bytes]:
    """An Anthropic stream as vLLM and llama.cpp write it."""
    prompt, completion = say.tokens
    message = {**message_body(say, received), "content": [], "stop_reason": None}
    message["usage"] = {"input_tokens": prompt, "output_tokens": 0}
    block = {"type": "text", "text": ""}
    made: list[tuple[str, dict[str, Any]]] = [
        ("message_start", {"message": message}),
        ("content_block_start", {"index": 0, "content_block": block}),
    ]
    for word in say.words:
        text = {"type": "text_delta", "text": word}
        made.append(("content_block_delta", {"index": 0, "delta": text}))
    end = {"stop_reason": "end_turn", "stop_sequence": None}
    used = {"input_tokens": prompt, "output_tokens": completion}
    made += [
        ("content_block_stop", {"index": 0}),
        ("message_delta", {"delta": end, "usage": used}),
        ("message_stop", {}),
    ]
    return [event({"type": name, **data}, name) for name, data in made]


def response_events(say: Say, received: Received) -> list[bytes]:
    """A Responses stream, cut down to the events that carry meaning."""
    whole = response_body(say, received)
    begun = {**whole, "status": "in_progress", "output": [], "usage": None}
    made: list[tuple[str, dict[str, Any]]] = [("response.created", {"response": begun})]
    for word in say.words:
        data = {"item_id": "msg_1", "output_index": 0, "content_index": 0, "delta": word}
        made.append(("response.output_text.delta", data))
    made.append(("response.completed", {"response": whole}))
    return [event({"type": n, "sequence_number": i, **d}, n) for i, (n, d) in enumerate(made)]


def chat_body(say: Say, received: Received) -> dict[str, Any]:
    """A whole chat answer."""
    message = {"role": "assistant", "content": "".join(say.words)}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    base = {"id": "chatcmpl-1", "object": "chat.completion", "created": 1}
    return {**base, "model": say.name(received), "choices": [choice], "usage": usage(*say.tokens)}


def completion_body(say: Say, received: Received) -> dict[str, Any]:
    """A whole completions answer."""
    choice = {"index": 0, "text": "".join(say.words), "finish_reason": "stop"}
    base = {"id": "cmpl-1", "object": "text_completion", "created": 1}
    return {**base, "model": say.name(received), "choices": [choice], "usage": usage(*say.tokens)}


def message_body(say: Say, received: Received) -> dict[str, Any]:
    """A whole Anthropic message."""
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": say.name(received),
        "content": [{"type": "text", "text": "".join(say.words)}],
        "stop_reason": "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": say.tokens[0], "output_tokens": say.tokens[1]},
    }


def response_body(say: Say, received: Received) -> dict[str, Any]:
    """A whole Responses answer."""
    prompt, completion = say.tokens
    part = {"type": "output_text", "text": "".join(say.words), "annotations": []}
    item = {"id": "msg_1", "type": "message", "role": "assistant", "content": [part]}
    total = {"input_tokens": prompt, "output_tokens": completion}
    base = {"id": "resp_1", "object": "response", "created_at": 1, "status": "completed"}
    used = {**total, "total_tokens": prompt + completion}
    return {**base, "model": say.name(received), "output": [item], "usage": used}


def embedding_body(say: Say, received: Received) -> dict[str, Any]:
    """Vectors whose only value is the text's place in the request: a swapped one shows."""
    given = received.json.get("input")
    several = isinstance(given, list) and given and not isinstance(given[0], int)
    texts = given if several else [given]
    data = [
        {"object": "embedding", "index": n, "embedding": [float(n), float(len(str(text)))]}
        for n, text in enumerate(texts)
    ]
    used = {"prompt_tokens": say.tokens[0], "total_tokens": say.tokens[0]}
    return {"object": "list", "data": data, "model": say.name(received), "usage": used}


def rerank_body(say: Say, received: Received) -> dict[str, Any]:
    """Documents in reverse order."""
    documents = list(enumerate(received.json.get("documents", ())))
    results = [{"index": n, "relevance_score": 1.0 / (n + 1)} for n, _ in reversed(documents)]
    used = {"total_tokens": say.tokens[0]}
    return {"id": "rerank-1", "model": say.name(received), "results": results, "usage": used}


def count_body(say: Say, received: Received) -> dict[str, Any]:
    """The answer of Anthropic's count_tokens."""
    return {"input_tokens": say.tokens[0]}


BODIES: dict[str, Callable[[Say, Received], dict[str, Any]]] = {
    "chat/completions": chat_body,
    "completions": completion_body,
    "messages": message_body,
    "messages/count_tokens": count_body,
    "responses": response_body,
    "embeddings": embedding_body,
    "rerank": rerank_body,
}
