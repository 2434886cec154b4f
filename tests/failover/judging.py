"""From what a caller got to a grade, by code alone.

Met        the whole reply (F13: the right error), and every condition holds
Near       the whole reply, but a condition marked soft was missed
Tolerable  no reply, but a prompt and honest error
Defect     a part dressed as a whole, no end, no answer, or any other condition missed
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterable
from dataclasses import dataclass
from typing import Literal

from tests.client import Reply
from tests.failover.pace import now_s
from tests.failover.reply import WHOLE, finished, said

Grade = Literal["Met", "Near", "Tolerable", "Defect"]
GRADES: tuple[Grade, ...] = ("Met", "Near", "Tolerable", "Defect")  # the better first
Kind = Literal["whole", "error", "broken"]


@dataclass(frozen=True, slots=True)
class Miss:
    """A condition that did not hold."""

    what: str
    soft: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One call: what came of it, when it began and how long it took, in the loop's seconds."""

    kind: Kind
    why: str
    began_s: float
    took_s: float
    reply: Reply | None = None


async def call(asked: Awaitable[Reply], within_s: float) -> Call:
    """Wait for the answer, and judge it. A hang and a refused connection are broken, not errors."""
    began = now_s()
    reply = None
    try:
        async with asyncio.timeout(within_s):
            reply = await asked
        kind, why = judge(reply)
    except TimeoutError:
        kind, why = "broken", f"no end within {within_s:g} s"
    except (OSError, EOFError) as error:  # nobody listens, or no HTTP answer came
        kind, why = "broken", f"no answer: {error}"
    except (AssertionError, ValueError) as error:  # the strict client's
        kind, why = "broken", f"not to be read: {error}"
    return Call(kind=kind, why=why, began_s=began, took_s=now_s() - began, reply=reply)


def judge(reply: Reply) -> tuple[Kind, str]:
    """Rule 1: the entire reply, or an unmistakable error; anything else is broken."""
    if reply.status >= 300:
        error = reply.error or {}
        return (
            ("error", str(reply.status)) if error.get("message") else ("broken", "an empty error")
        )
    if reply.events and reply.error is not None:
        if finished(reply):
            return "broken", "an error event, and the end of a success"
        begun = WHOLE.startswith(said(reply))
        return ("error", "error event") if begun else ("broken", "an error after a wrong text")
    if (text := said(reply)) != WHOLE:
        what = "a part" if WHOLE.startswith(text) else "another text"
        return "broken", f"{what} that ends like a whole reply: {len(text)} characters"
    if reply.events and not (finished(reply) and reply.done):
        return "broken", "a stream without its end"
    return "whole", "whole"


def grade(calls: Iterable[Call], misses: Iterable[Miss], right: Kind = "whole") -> Grade:
    """The grade of a scenario; `right` is the kind of answer that it asks for."""
    kinds, misses = {c.kind for c in calls}, list(misses)
    if "broken" in kinds or not kinds or any(not m.soft for m in misses):
        return "Defect"
    if kinds == {right}:
        return "Near" if misses else "Met"
    return "Tolerable" if "error" in kinds else "Near"
