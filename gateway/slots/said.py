"""What a control plane said, and what it means for a request. Pure.

    code             when                                       other groups
    loading          the recipe is on its way up                only where burst bridges swaps
    swapping         another recipe makes way for it            the same
    not_loaded       it may not be loaded for this request      the same
    full, waited     too many wait; the longest wait is over    the same
    evicted          the slot was swapped under the answer      the same
    failed           its start failed; the message says why     yes
    unreachable      no control plane answers                   yes
    unknown_recipe   the slot knows no such recipe              yes
    misconfigured    it refused the gateway's key or request    yes

None of them counts against the deployment: the control plane itself waits between starts.
"""

from __future__ import annotations

import math
import re
from random import Random
from typing import Any, Final

import msgspec

from gateway.config.config import Slot
from gateway.errors import BadRequest
from gateway.exchange import Headers
from gateway.judge import Verdict, retry_after_s, without_inner

_SWAPS: Final = ("loading", "swapping", "not_loaded", "full", "waited", "evicted")
_FAULTS: Final = {"failed": 503, "unreachable": 503, "unknown_recipe": 502, "misconfigured": 502}
_MAX_TEXT: Final = 1024
_SECONDS: Final = re.compile(rb"\d{1,9}(\.\d{1,9})?")
_MAX_PAUSE_S: Final = 3.0
_NO_HEADER: Final = re.compile(r"[\x00-\x1f\x7f]")


class Granted(msgspec.Struct, frozen=True, kw_only=True):
    """A lease: who serves the request. `variants` holds body fields by variant."""

    lease: str
    recipe: str
    served_name: str
    url: str
    port: int
    variants: dict[str, dict[str, Any]] = {}

    def __post_init__(self) -> None:
        """Refuse what cannot go into a header."""
        if _NO_HEADER.search(self.recipe + self.served_name + self.lease):
            raise ValueError("a name in a lease holds a control code")


class Refused(msgspec.Struct, frozen=True, kw_only=True):
    """No lease: why, in the control plane's words, and when to ask again."""

    code: str
    message: str = ""
    retry_after_s: float | None = None


class _Error(msgspec.Struct):
    code: str = ""
    message: str = ""


class _Body(msgspec.Struct):
    error: _Error


class Unreadable(Exception):
    """An answer that no control plane gives."""


def read_lease(status: int, headers: Headers, body: bytes, now: float) -> Granted | Refused:
    """The answer to a request for a lease. Raises Unreadable."""
    try:
        if status == 200:
            return msgspec.json.decode(body, type=Granted)
        error = msgspec.json.decode(body, type=_Body).error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as wrong:
        raise Unreadable(f"an answer with status {status} that is none of its own") from wrong
    if status == 503:
        code = error.code if error.code in (*_SWAPS, "failed") else "swapping"
        return Refused(code=code, message=error.message, retry_after_s=retry_after_s(headers, now))
    code = "unknown_recipe" if status == 404 else "misconfigured"
    return Refused(code=code, message=error.message)


def wait_s(header: bytes | None, slot: Slot) -> float:
    """How long a request may be held: by its X-Slot-Wait, else by the file, never above it."""
    if header is None:
        return slot.max_hold_s if slot.on_swap == "hold" else 0.0
    if not _SECONDS.fullmatch(header.strip()):
        raise BadRequest("X-Slot-Wait is a number of seconds; 0 does not wait")
    return min(float(header), slot.max_hold_s)


def pause_s(number: int, random: Random) -> float:
    """The pause before a control plane that does not answer is asked again."""
    return min(0.1 * 2.0 ** min(number, 10), _MAX_PAUSE_S) * random.uniform(0.5, 1.0)


def no_lease(refused: Refused, slot: Slot, random: Random) -> Verdict:
    """The verdict on an attempt without a lease, or whose lease was evicted."""
    swap = refused.code in _SWAPS
    after = refused.retry_after_s
    if after is None and _FAULTS.get(refused.code, 503) == 503:
        after = random.uniform(1.0, 5.0)
    return Verdict(
        kind="slot",
        status=_FAULTS.get(refused.code, 503),
        code=f"slot_{refused.code}",
        message=without_inner(refused.message)[:_MAX_TEXT] or WORDS[refused.code],
        retry_after_s=None if after is None else max(1.0, math.ceil(after)),
        outcome=f"slot-{refused.code.replace('_', '-')}",
        stays=swap and not slot.burst_bridges_swap,
    )


WORDS: Final = {
    "loading": "the model is being loaded: try again later",
    "swapping": "the slot loads another model first: try again later",
    "not_loaded": "the model is not loaded, and this name does not have it loaded",
    "full": "too many requests wait for the slot: try again later",
    "waited": "the model was not loaded in time: try again later",
    "evicted": "the slot was swapped to another model while this answer ran: try again",
    "failed": "the model could not be started: try again later",
    "unreachable": "the slot's control plane does not answer: try again later",
    "unknown_recipe": "the slot knows no such recipe: its file or the gateway's is wrong",
    "misconfigured": "the slot refused the gateway: its url or key in the file is wrong",
}

UNREACHABLE: Final = Refused(code="unreachable")
EVICTED: Final = Refused(code="evicted")
