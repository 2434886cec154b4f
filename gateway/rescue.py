"""Rescue: a stream that broke after content is carried on by a fallback, where the file says so.

    continue   the spare gets the partial text as an assistant prefix and goes on from there
               (model_info.accepts_prefix; of completions, as the end of the prompt), with what is
               left of the client's limit on the answer
    replay     the spare gets the request again; what it says is passed on only after its opening
               has matched what was sent, to the character

Never for tool calls, reasoning or constrained output. A Responses stream is only replayed: its last
events repeat the whole text. Id and model stay the first one's, usage is the second's.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Protocol

import msgspec

from gateway import seam
from gateway.config.config import Config, Deployment, Dialect, RescueWay
from gateway.dialects import ASKS_FOR_USAGE, LIMIT_FIELDS
from gateway.exchange import Broken, Request
from gateway.judge import EngineSaid, Verdict
from gateway.routing.facts import Admitted
from gateway.routing.plan import Plan
from gateway.routing.table import Group, Route, Stage
from gateway.trace import Trace

_DIALECTS: frozenset[Dialect] = frozenset({"chat", "completions", "messages", "responses"})
# Fields that constrain an answer: its second half would not keep to what its first began.
_CONSTRAINTS = frozenset({
    "ebnf", "grammar", "guided_choice", "guided_grammar", "guided_json",
    "guided_regex", "json_schema", "output_config", "output_format", "regex", "response_format",
    "structured_outputs",
})  # fmt: skip
# What makes an engine go on with the last message instead of answering it.
_PREFIX_FIELDS: dict[str | None, dict[str, bool]] = {
    "vllm": {"continue_final_message": True, "add_generation_prompt": False},
    "sglang": {"continue_final_message": True},
}


class Rescue:
    """One stream: what its client has of it, and how another engine's answer is joined to it."""

    def __init__(self, request: Request, ways: tuple[RescueWay, ...]) -> None:
        self.ways = ways
        self.begun = False  # something of the second answer has gone out
        self.sent_tokens = 0  # of the first answer, at least: an event may hold several
        self._request = request
        self._text = ""  # what the client has
        self._skip = ""  # of the second answer: its opening, to be matched and left out
        self._identity = seam.Identity()
        self._fits = request.dialect in _DIALECTS and not _is_constrained(request)

    @classmethod
    def of(cls, request: Request, config: Config, route: Route | None) -> Rescue | None:
        """The rescue of a request's stream, or None where the file asks for none."""
        ways = config.rescue.get(route.group) if route is not None and request.stream else None
        return cls(request, ways) if ways else None

    @property
    def possible(self) -> bool:
        """True if what was sent is plain text that another engine can carry on."""
        return self._fits and bool(self._text)

    def note(self, events: bytes) -> bytes:
        """What goes to the client, as it is; its text is kept."""
        for event in seam.events(events) if self._fits else ():
            if (data := seam.decoded(event)) is not None:
                self._identity.take(data)
                text = seam.read(self._request.dialect, data)
                self._fits = self._fits and text is not None
                self._text += text or ""
        return events

    def ways_with(self, group: Group) -> tuple[RescueWay, ...]:
        """The ways that lead anywhere with a group."""
        goes_on = self._prefixed() is not None and any(m.accepts_prefix for m in group.members)
        return tuple(way for way in self.ways if way == "replay" or goes_on)

    def request_for(self, spare: Deployment, way: RescueWay) -> Request:
        """What the spare is asked. One that takes no prefix is asked to replay."""
        prefixed = self._prefixed() if way == "continue" and spare.accepts_prefix else None
        if prefixed is None:
            self._skip = self._text
            return self._request
        self._skip = ""
        if self._request.dialect != "completions":
            prefixed |= _PREFIX_FIELDS.get(spare.engine, {})
        prefixed |= self._what_is_left()
        fields = {name: msgspec.Raw(msgspec.json.encode(value)) for name, value in prefixed.items()}
        return msgspec.structs.replace(self._request, fields={**self._request.fields, **fields})

    def _what_is_left(self) -> dict[str, int]:
        """The client's own limits on the answer, less what it has of it; one token at least."""
        fields = self._request.fields
        limits = {name: json.loads(bytes(fields[name])) for name in LIMIT_FIELDS if name in fields}
        return {k: max(1, n - self.sent_tokens) for k, n in limits.items() if isinstance(n, int)}

    def _prefixed(self) -> dict[str, Any] | None:
        """The field that holds the partial text; None where a text cannot be put there."""
        fields = self._request.fields
        if self._request.dialect == "responses":
            return None
        if self._request.dialect == "completions":
            prompt = json.loads(bytes(fields.get("prompt", b"null")))
            if not isinstance(prompt, str) or json.loads(bytes(fields.get("echo", b"null"))):
                return None  # token ids, several prompts, or an engine that would repeat it
            return {"prompt": prompt + self._text}
        messages = json.loads(bytes(fields.get("messages", b"null")))
        if not messages or not all(isinstance(m, dict) for m in messages):
            return None
        last, text = messages[-1], self._text
        if last.get("role") == "assistant":  # the client began the answer itself
            if not isinstance(last.get("content"), str):
                return None
            messages, text = messages[:-1], last["content"] + text
        return {"messages": [*messages, {"role": "assistant", "content": text}]}

    def join(self, events: bytes) -> bytes:
        """The second answer's events as they follow the first's. Broken where they do not fit."""
        return b"".join(self._joined(event) for event in seam.events(events))

    def _joined(self, event: bytes) -> bytes:
        dialect, data = self._request.dialect, seam.decoded(event)
        if data is None:
            return event  # a comment, or the terminator
        text = seam.read(dialect, data, second=True)
        if text is None:
            raise Broken("the spare's answer does not fit what was sent")
        if seam.is_opening(dialect, data):
            return b""
        left = self._without_opening(text)
        ends = seam.is_end(dialect, data)
        if ends and self._skip:
            raise Broken("the spare's answer is shorter than what was sent")
        if not left and text and not ends:
            return b""
        self.begun = True
        if text:
            seam.set_text(data, left)
        self._identity.put(dialect, data)
        head = b"" if dialect in ASKS_FOR_USAGE else f"event: {data['type']}\n".encode()
        return head + b"data: " + msgspec.json.encode(data) + b"\n\n"

    def _without_opening(self, text: str) -> str:
        """What of `text` is new to the client. Broken if the opening is not what was sent."""
        common = min(len(text), len(self._skip))
        if text[:common] != self._skip[:common]:
            raise Broken("the spare's answer opens otherwise than what was sent")
        self._skip = self._skip[common:]
        return text[common:]


def _is_constrained(request: Request) -> bool:
    """True if the answer is one of several, or must keep to a form that its first half began."""
    fields = request.fields
    if _CONSTRAINTS & set(fields) or bytes(fields.get("n", b"1")) not in (b"1", b"null"):
        return True
    text = json.loads(bytes(fields.get("text", b"null")))  # of the Responses dialect
    form = text.get("format") if isinstance(text, dict) else None
    return isinstance(form, dict) and form.get("type") != "text"


Through = Callable[[bytes], bytes]  # what events pass on their way out


class Carrier(Protocol):
    """A request on its way whose stream broke; see relay/turn.py."""

    request: Request
    rescue: Rescue | None
    through: Through
    trace: Trace
    groups: Mapping[str, Group]

    def spare(self, group: str) -> Admitted | None:
        """A permit of the group that is free now."""
        ...

    async def attempt(self, admitted: Admitted, *, spare: bool) -> Verdict:
        """One more attempt. Raises EngineSaid."""
        ...


async def carry_on(turn: Carrier, verdict: Verdict, stage: Stage, plan: Plan) -> bool:
    """A stream failed with `verdict`: True if a fallback has carried it to its end."""
    rescue, trace = turn.rescue, turn.trace
    if rescue is None or not rescue.possible or verdict.kind not in ("retry", "timeout"):
        return False
    rescue.sent_tokens = (trace.usage and trace.usage.completion_tokens) or 0
    plan.failed(stage, overflow=False)
    turn.through = rescue.join
    before = trace.usage, trace.estimated, trace.group, trace.deployment, trace.leased
    try:
        while not rescue.begun and (after := plan.next()):
            if await _carried(turn, rescue, turn.groups[after.group]):
                return True
    finally:
        if not rescue.begun:  # whoever was asked: what the client has is the first one's
            trace.usage, trace.estimated, trace.group, trace.deployment, trace.leased = before
    return False


async def _carried(turn: Carrier, rescue: Rescue, group: Group) -> bool:
    """True if a deployment of the group has carried the stream to its end."""
    for way in rescue.ways_with(group):
        if (admitted := turn.spare(group.name)) is None:
            return False
        turn.request = rescue.request_for(admitted.permit.deployment, way)
        turn.trace.usage = None
        try:
            return (await turn.attempt(admitted, spare=False)).kind == "ok"
        except EngineSaid as said:
            if rescue.begun or said.verdict.kind == "timeout":
                return False
    return False
