"""The activity record: one line of JSON for each inference request that passed the key check."""

from __future__ import annotations

from typing import Literal

import msgspec

Outcome = Literal["ok", "failed", "cancelled", "refused"]

MAX_CHARACTERS = 64  # of any text that a client chose
# A header may be 64 kB of control characters: look only this far for what is worth keeping.
_LOOK_AT = 1024


class Attempt(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One try at one deployment. `outcome` is "ok" or why it failed, such as "http-503"."""

    deployment: str
    outcome: str
    ms: float


class Usage(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Tokens as the engine reported them; None where it said nothing."""

    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    completion_tokens: int | None = None
    reasoning_tokens: int | None = None

    def tok_s(self, seconds: float) -> float | None:
        """Answer tokens a second; None where there are none, or no time passed."""
        if not self.completion_tokens or seconds <= 0:
            return None
        return round(self.completion_tokens / seconds, 2)


class Record(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What became of one request. Times in milliseconds; no key, header, prompt or answer."""

    id: str
    at: str  # UTC, ISO 8601 with Z, when the request arrived
    client: str  # the key's name
    client_ip: str
    app: str
    dialect: str
    requested_model: str | None  # None where the name is not one of ours
    task: str | None
    tier: str | None
    group: str | None
    deployment: str | None  # the one that served it, or failed last
    upstream: str | None
    recipe: str | None = None  # what its slot had loaded; None where it has no slot
    attempts: list[Attempt]
    stream: bool
    status: int  # as sent to the client; 499 where it left before one was sent
    outcome: Outcome
    error: str | None = None  # the stable error code, where one was sent
    queue_ms: float
    ttft_ms: float | None
    duration_ms: float
    prompt_tokens: int | None
    cached_tokens: int | None
    completion_tokens: int | None
    reasoning_tokens: int | None
    tok_s: float | None
    estimated: bool
    usage_note: str | None = None
    config: str


def clean_text(value: str | bytes | None) -> str:
    """The first 64 printable characters of `value`; "" for None. Never raises.

    Control characters, line ends, direction marks and lone surrogates are left out, so that the
    result fits one line of a log and encodes as UTF-8.
    """
    if value is None:
        return ""
    if isinstance(value, bytes):
        value = value[: _LOOK_AT * 4].decode("utf-8", "replace")
    if len(value) <= MAX_CHARACTERS and value.isprintable():
        return value
    kept = "".join(c for c in value[:_LOOK_AT] if c.isprintable())
    return kept[:MAX_CHARACTERS].strip()
