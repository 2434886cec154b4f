"""The sixteen scenarios and those added: what the upstream does, what must hold, as rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from tests.failover import upstream as up
from tests.failover.cells import CELLS, Cell
from tests.failover.judging import Call, Kind, Miss
from tests.failover.reply import model_of, usage_of
from tests.failover.upstream import Play, Try


@dataclass(frozen=True, slots=True, kw_only=True)
class Story:
    """What the caller received, and what the upstream recorded of A and of B."""

    cell: Cell
    calls: list[Call]
    a: str  # the model's name at the upstream
    b: str
    tries: list[Try]
    spare_tries: list[Try]

    @property
    def call(self) -> Call:
        """The only call, or the first."""
        return self.calls[0]

    def model(self, call: Call | None = None) -> str | None:
        """The model that an answer names; None if it is no whole one."""
        call = call or self.call
        return model_of(call.reply) if call.kind == "whole" and call.reply else None

    def since_first(self, number: int) -> float:
        """When the n-th try came, after the first; for ever if it did not come."""
        return self.tries[number - 1].since_first_s if len(self.tries) >= number else float("inf")

    def within(self, seconds: float) -> int:
        """How many tries came in the opening seconds."""
        return sum(t.since_first_s <= seconds for t in self.tries)


Check = Callable[[Story], Iterator[Miss]]


def nothing_more(story: Story) -> Iterator[Miss]:
    """No condition beside the general ones."""
    del story
    yield from ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """One fault. `cells` leaves out where it cannot exist; `right` is the answer it asks for."""

    name: str
    title: str
    play: Play
    within_s: float
    aim_s: float
    check: Check = nothing_more
    right: Kind = "whole"
    strict_spare: bool = False
    outage: bool = False  # twenty calls, one due every 4 s
    cells: tuple[Cell, ...] = CELLS
    most_tries: int = 6
    extra: dict[str, Any] = field(default_factory=dict)  # of the request

    @property
    def slug(self) -> str:
        """For model names."""
        return self.name.lower().replace(" ", "-")


STREAMED = tuple(c for c in CELLS if c.streamed)
# Only chat and completions end on a mark apart from the finish reason.
MARKED = tuple(c for c in STREAMED if c.spoken in ("chat", "completions"))


def f1(story: Story) -> Iterator[Miss]:
    if len(story.tries) < 2:
        yield Miss("A was not asked again", soft=True)
    elif story.since_first(2) < 1.8:
        yield Miss(f"A was asked again after {story.since_first(2):.2f} s of its 2", soft=True)
    if story.within(1.5) > 2:
        yield Miss(f"{story.within(1.5)} tries in the first 1.5 s")


def f2(story: Story) -> Iterator[Miss]:
    if story.within(3.0) > 4:
        yield Miss(f"{story.within(3.0)} tries in the opening 3 s")
    if not len(story.tries) > 1:
        yield Miss("tries are not spaced out: there was only one")


def f3(story: Story) -> Iterator[Miss]:
    if len(story.tries) != 2 or story.model() == story.b:
        yield Miss(f"{len(story.tries)} tries on A, and {story.model()} answered", soft=True)


def from_b(story: Story) -> Iterator[Miss]:
    if story.call.kind == "whole" and story.model() != story.b:
        yield Miss(f"the reply names {story.model()}")


def f6(story: Story) -> Iterator[Miss]:
    if len(story.tries) != 1:
        yield Miss(f"{len(story.tries)} tries on a mute A", soft=True)
    if any(t.received.peer_closed_at is None for t in story.tries):
        yield Miss("A's connection was not closed")
    yield from from_b(story)


def f7(story: Story) -> Iterator[Miss]:
    if story.call.took_s > 15:
        yield Miss(f"took {story.call.took_s:.1f} s", soft=True)


def f11(story: Story) -> Iterator[Miss]:
    if story.cell.streamed and (story.call.reply is None or usage_of(story.call.reply) is None):
        yield Miss("no usage", soft=True)
    if len(story.tries) != 1 or story.spare_tries:
        yield Miss("work that had succeeded was done again")


def f12(story: Story) -> Iterator[Miss]:
    if len(story.tries) != 1:
        yield Miss(f"{len(story.tries)} tries on A with one prompt")
    yield from from_b(story)


def f13(story: Story) -> Iterator[Miss]:
    if len(story.tries) != 1:
        yield Miss(f"{len(story.tries)} tries on A")
    if story.spare_tries and story.call.kind != "whole":
        yield Miss("the refused prompt was shown to B")
    reply = story.call.reply
    if story.call.kind == "error" and reply is not None:
        error = reply.error or {}
        words = {error.get("code"), error.get("type")}
        intact = "content_policy_violation" in words or story.cell.dialect == "messages"
        if reply.status != 400 or not intact or "refused by A's policy" not in error["message"]:
            yield Miss(f"not A's refusal: {reply.status} {error}")


def f14(story: Story) -> Iterator[Miss]:
    reply = story.call.reply
    if reply is not None and (reply.status == 400 or b"must end with a user" in reply.body):
        yield Miss("the caller saw B's 400")


def f15(story: Story) -> Iterator[Miss]:
    during = [t for t in story.tries if t.since_first_s < up.OUTAGE_S]
    if len(during) > len(story.calls):
        yield Miss(f"{len(during)} tries on A during the outage, in {len(story.calls)} calls")
    ended_s = story.tries[0].at_s + up.OUTAGE_S if story.tries else 0.0
    back = [c.began_s + c.took_s - ended_s for c in story.calls if story.model(c) == story.a]
    if not back or min(back) > 30:
        yield Miss(f"A did not answer within 30 s of its recovery: {back}")
    if slow := [c for c in story.calls if c.took_s > 30]:
        yield Miss(f"{len(slow)} calls took more than 30 s")


def f16(story: Story) -> Iterator[Miss]:
    yield from from_b(story)
    if story.call.reply is None or usage_of(story.call.reply) != (11, 60):
        yield Miss("B's usage is not in the reply", soft=True)


ROWS: tuple[tuple[Any, ...], ...] = (
    ("F1", "Throttled once, and told when to come back", up.throttled_once, 20, 5, f1, {}),
    ("F2", "Throttled every time, no hint given", up.throttled, 40, 6, f2, {}),
    ("F3", "A single server error", up.one_500, 20, 3, f3, {}),
    ("F4", "Overloaded for the whole call", up.overloaded, 40, 6, from_b, {}),
    ("F5", "Connection dropped before any byte", up.one_reset, 20, 2, nothing_more, {}),
    ("F6", "Request accepted, then silence", up.mute, 100, 31, f6, {}),
    ("F7", "Headers now, words much later", up.late, 60, 15, f7, {"cells": STREAMED}),
    ("F8", "Stream dies two thirds of the way through", up.dies, 40, 1, nothing_more, {}),
    ("F9", "Stream freezes, connection up", up.freezes, 45, 14, nothing_more, {"cells": STREAMED}),
    ("F10", "One unreadable event", up.unreadable, 30, 1, nothing_more, {"cells": STREAMED}),
    ("F11", "Good stream with no end marker", up.unmarked, 8, 1, f11, {"cells": MARKED}),
    ("F12", "Prompt too long for the model", up.too_long, 20, 1, f12, {}),
    ("F13", "Refused on policy grounds", up.policy, 20, 1, f13, {"right": "error"}),
    (
        "F14",
        "Stream dies, and B finishes nobody's sentence",
        up.dies,
        40,
        1,
        f14,
        {"cells": STREAMED, "strict_spare": True},
    ),
    ("F15", "Outage of sixty seconds, then recovery", up.outage, 30, 6, f15, {"outage": True}),
    ("F16", "What the books say after a switch", up.overloaded, 40, 6, f16, {}),
)


def _scenario(row: tuple[Any, ...]) -> Scenario:
    name, title, play, within_s, aim_s, check, more = row
    if name == "F15":  # tries of twenty calls, counted by its own check
        more = {**more, "most_tries": 40}
    return Scenario(
        name=name, title=title, play=play, within_s=within_s, aim_s=aim_s, check=check, **more
    )


SCENARIOS = tuple(_scenario(row) for row in ROWS)


def waited(seconds: float) -> Check:
    """The named pause was waited out on A."""

    def check(story: Story) -> Iterator[Miss]:
        if len(story.tries) < 2 or story.since_first(2) < 0.9 * seconds:
            yield Miss(f"A was asked again after {story.since_first(2):.2f} s", soft=True)

    return check


def not_waited(story: Story) -> Iterator[Miss]:
    """A pause beyond reason is no reason to wait, nor to ask again."""
    if len(story.tries) != 1 or story.call.took_s > 5:
        yield Miss(f"{len(story.tries)} tries on A, {story.call.took_s:.1f} s")
    yield from from_b(story)


MORE: tuple[tuple[Any, ...], ...] = (
    ("R1", "Retry-After as an HTTP date", up.waits_in("date"), 20, 5, waited(2), {}),
    ("R2", "Retry-After in milliseconds", up.waits_in("milliseconds"), 20, 5, waited(1.5), {}),
    ("R3", "Retry-After absurdly large", up.waits_in("absurd"), 20, 1, not_waited, {}),
    (
        "E1",
        "An error event first in a 200, then [DONE]",
        up.error_event_first,
        20,
        6,
        from_b,
        {"cells": STREAMED},
    ),
    (
        "E2",
        "An error event after content, then [DONE]",
        up.error_event_later,
        20,
        1,
        nothing_more,
        {"cells": STREAMED},
    ),
)
# What the sixteen do not reach, played and graded as they are.
ADDED = tuple(_scenario(row) for row in MORE)
