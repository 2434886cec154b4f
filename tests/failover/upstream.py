"""What the upstream does in each scenario. Every fault has a model name of its own on one address.

A `Play` answers one try at a model: it is told the request, the number of the try, and how long
ago the first one came. `good` is what a healthy model says; `spare` can also go on with another
model's sentence, and `strict_spare` refuses to.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from email.utils import formatdate
from typing import Any

from tests.engine import FakeEngine
from tests.engine_answers import (
    RESET,
    SILENT,
    Answer,
    Close,
    Pause,
    Reset,
    Send,
    Step,
    chunk,
    error,
    reply,
)
from tests.engine_says import DONE, Say, event
from tests.engine_wire import Received
from tests.failover.pace import now_s
from tests.failover.reply import TOKENS, WORDS


@dataclass(frozen=True, slots=True)
class Try:
    """One try at a model, as its upstream noted it. Times are the loop's."""

    received: Received
    number: int  # from 1
    at_s: float
    since_first_s: float


Play = Callable[[Try], Answer]
END = Send(b"0\r\n\r\n")


@dataclass
class Upstream:
    """Many models on one address; what each was asked."""

    plays: dict[str, Play] = field(default_factory=dict)
    tries: dict[str, list[Try]] = field(default_factory=dict)
    engine: FakeEngine = field(init=False)

    def __post_init__(self) -> None:
        self.engine = FakeEngine("upstream", otherwise=self._answer)

    def _answer(self, received: Received) -> Answer:
        model, now = received.json["model"], now_s()
        before = self.tries.setdefault(model, [])
        since = now - before[0].at_s if before else 0.0
        before.append(Try(received, len(before) + 1, now, since))
        return self.plays[model](before[-1])

    def at_once(self, model: str) -> int:
        """How many tries at the model are not over."""
        return sum(not t.received.over.is_set() for t in self.tries.get(model, []))

    async def over(self, model: str, within_s: float = 1.0) -> bool:
        """Whether every try at the model is over by then: answered, or closed by the gateway."""
        waits = [t.received.over.wait() for t in self.tries.get(model, [])]
        try:
            async with asyncio.timeout(within_s):
                await asyncio.gather(*waits)
        except TimeoutError:
            return False
        return True


def good(at: Try) -> Answer:
    """The correct reply, whole."""
    return Say(words=WORDS, tokens=TOKENS)(at.received)


def spare(at: Try) -> Answer:
    """A healthy model that goes on with a sentence which another one began."""
    begun = _begun(at.received)
    left = tuple(w for w in WORDS if w not in begun)
    tokens = (TOKENS[0] + TOKENS[1] - len(left), len(left))
    return in_gulps(Say(words=left, tokens=tokens)(at.received))


def strict_spare(at: Try) -> Answer:
    """A healthy model that refuses a conversation which ends on an assistant message."""
    last = (at.received.json.get("messages") or [{}])[-1]
    if last.get("role") == "assistant":
        text = "the conversation must end with a user message"
        return refusal(at, 400, "invalid_request_error", text)
    return in_gulps(good(at))


def in_gulps(steps: Answer, size: int = 8) -> Answer:
    """The same bytes in fewer writes, as a fast engine's arrive: several events in one read."""
    sent = [step.data for step in steps if isinstance(step, Send)]
    return tuple(Send(b"".join(sent[n : n + size])) for n in range(0, len(sent), size))


def _begun(received: Received) -> str:
    """The text that the spare is to go on with: an assistant prefix, or the tail of a prompt."""
    body = received.json
    last = (body.get("messages") or [{}])[-1]
    if last.get("role") == "assistant":
        text = last["content"]
        return text if isinstance(text, str) else "".join(part["text"] for part in text)
    prompt = body.get("prompt") or ""
    start = prompt.find(WORDS[0])
    return "" if start < 0 else str(prompt[start:])


def refusal(
    at: Try, status: int, code: str, message: str, *, headers: tuple[tuple[str, str], ...] = ()
) -> Answer:
    """An error in the envelope of the dialect."""
    if "/messages" not in at.received.path:
        return error(status, message, kind=code, code=code, headers=headers)
    body: dict[str, Any] = {"type": "error", "error": {"type": code, "message": message}}
    return reply(body, status, headers)


def broken_off(at: Try, words: int, *how: Step) -> Answer:
    """A well begun answer that goes on otherwise: after so many words of a stream, or bytes."""
    steps = good(at)
    if not at.received.streams:
        body = steps[-1]
        assert isinstance(body, Send)
        return (steps[0], Send(body.data[: len(body.data) * words // len(WORDS)]), *how)
    return (*steps[: _word(steps, words - 1) + 1], *how)


def _word(steps: Answer, number: int) -> int:
    """Where the n-th word of a stream is sent."""
    text = WORDS[number].encode()
    marks = tuple(b'"%b": "%b"' % (name, text) for name in (b"content", b"text", b"delta"))
    found = (
        n
        for n, step in enumerate(steps)
        if isinstance(step, Send) and any(mark in step.data for mark in marks)
    )
    return next(found)


def throttled_once(at: Try) -> Answer:
    """F1."""
    if at.number > 1:
        return good(at)
    return refusal(at, 429, "rate_limit_error", "slow down", headers=(("retry-after", "2"),))


def throttled(at: Try) -> Answer:
    """F2."""
    return refusal(at, 429, "rate_limit_error", "slow down")


def one_500(at: Try) -> Answer:
    """F3."""
    return refusal(at, 500, "api_error", "it broke") if at.number == 1 else good(at)


def overloaded(at: Try) -> Answer:
    """F4, F16."""
    return refusal(at, 503, "overloaded_error", "A has no room")


def one_reset(at: Try) -> Answer:
    """F5."""
    return RESET if at.number == 1 else good(at)


def mute(at: Try) -> Answer:
    """F6."""
    del at
    return (Pause(120.0), *SILENT)


def late(at: Try) -> Answer:
    """F7."""
    first, *rest = good(at)
    return (first, Pause(20.0), *rest)


def dies(at: Try) -> Answer:
    """F8, F14: not streamed, a declared length that is not delivered."""
    return broken_off(at, 40, Close())


def freezes(at: Try) -> Answer:
    """F9."""
    return broken_off(at, 20, Pause(30.0), Reset())


def unreadable(at: Try) -> Answer:
    """F10."""
    steps = good(at)
    tenth = _word(steps, 8)
    return (*steps[:tenth], Send(chunk(b'data: {"choices":[{"delta":{"con\n\n')), *steps[tenth:])


def unmarked(at: Try) -> Answer:
    """F11."""
    return tuple(s for s in good(at) if not (isinstance(s, Send) and DONE in s.data))


def too_long(at: Try) -> Answer:
    """F12."""
    text = "This model's maximum context length is 512 tokens"
    if "/messages" in at.received.path:  # the dialect has no code of its own for it
        return refusal(at, 400, "invalid_request_error", "prompt is too long: 600 tokens > 512")
    return refusal(at, 400, "context_length_exceeded", text)


def policy(at: Try) -> Answer:
    """F13."""
    return refusal(at, 400, "content_policy_violation", "the prompt was refused by A's policy")


OUTAGE_S = 60.0


def outage(at: Try) -> Answer:
    """F15: a minute of 503 from the first call on, then well."""
    return overloaded(at) if at.since_first_s < OUTAGE_S else good(at)


def error_event_first(at: Try) -> Answer:
    """An overload inside a 200, as vLLM says it: before any content, then the success mark."""
    steps = good(at)
    first = next(n for n, s in enumerate(steps) if isinstance(s, Send) and b"data:" in s.data)
    return (*steps[:first], *_error_event(at))


def error_event_later(at: Try) -> Answer:
    """An engine that dies after content and says so, and then the success mark."""
    return broken_off(at, 40, *_error_event(at))


def _error_event(at: Try) -> Answer:
    message = "EngineCore encountered an issue"
    inner: dict[str, Any] = {"message": message, "type": "InternalServerError", "code": 503}
    if "/messages" in at.received.path:
        said = event({"type": "error", "error": inner}, "error")
    elif "/responses" in at.received.path:
        said = event({"type": "error", "code": "server_error", "message": message}, "error")
    else:
        said = event({"error": inner}) + DONE
    return (Send(chunk(said)), END)


def waits_in(form: str) -> Play:
    """429 once, with a Retry-After in one of its forms."""
    forms = {
        "seconds": ("retry-after", "2"),
        "date": ("retry-after", ""),
        "milliseconds": ("retry-after-ms", "1500"),
        "absurd": ("retry-after", "86400000"),
    }

    def play(at: Try) -> Answer:
        if at.number > 1 and form != "absurd":
            return good(at)
        name, value = forms[form]
        value = value or formatdate(time.time() + 3, usegmt=True)
        return refusal(at, 429, "rate_limit_error", "slow down", headers=((name, value),))

    return play
