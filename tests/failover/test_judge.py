"""The judge itself: what must never pass for an answer, seen by the bench as a gateway's."""

from __future__ import annotations

import asyncio

import pytest

from tests import markers
from tests.client import Client
from tests.engine import FakeEngine
from tests.engine_answers import (
    CLOSED,
    SILENT,
    Answer,
    Close,
    Pause,
    Send,
    Step,
    chunk,
    error,
    reply,
)
from tests.engine_says import DONE, Say
from tests.engine_wire import Received
from tests.failover.bench import Result, Run, bench
from tests.failover.cells import THE_CALL, Cell
from tests.failover.judging import Grade
from tests.failover.reply import TOKENS, WORDS
from tests.failover.scenarios import SCENARIOS
from tests.failover.upstream import Try, broken_off

BY_NAME = {s.name: s for s in SCENARIOS}
END = Send(b"0\r\n\r\n")


async def graded(gateway: FakeEngine, scenario: str = "F3", cell: Cell = THE_CALL) -> Result:
    """The grade of something that answers in the gateway's place."""
    run = Run(BY_NAME[scenario], cell)
    async with bench([run]) as b, gateway:
        return await b.run(run, Client("127.0.0.1", gateway.port, markers.key("tester")))


def whole(received: Received) -> Answer:
    return Say(words=WORDS, tokens=TOKENS)(received)


def cut(words: int, *how: Step) -> FakeEngine:
    """A gateway that passes so many words on, and then this."""
    return FakeEngine(
        "gateway", otherwise=lambda received: broken_off(Try(received, 1, 0.0, 0.0), words, *how)
    )


async def test_a_gateway_that_never_answers_is_a_defect() -> None:
    got = await graded(FakeEngine("gateway", otherwise=SILENT))

    assert got.grade == "Defect"
    assert "no end within" in got.calls[0].why


async def test_a_port_with_nothing_listening_is_a_defect() -> None:
    got = await graded(FakeEngine("gateway", phase="closed"))

    assert got.grade == "Defect"
    assert "no answer" in got.calls[0].why


FALSE: dict[str, FakeEngine] = {
    "a part that ends like a whole": cut(40, Send(chunk(DONE)), END),
    "a part that ends without a mark": cut(40, END),
    "a part and a cut": cut(40, Close()),
    "an error, then the success mark": cut(
        40, Send(chunk(b'data: {"error": {"message": "x"}}\n\n')), Send(chunk(DONE)), END
    ),
    "an event that does not parse": cut(40, Send(chunk(b"data: {\n\n")), END),
    "a closed connection": FakeEngine("gateway", otherwise=CLOSED),
    "an empty error": FakeEngine("gateway", otherwise=reply({"error": {}}, 503)),
    "a reply that is too late": FakeEngine("gateway", otherwise=lambda r: (Pause(25.0), *whole(r))),
}


@pytest.mark.parametrize("how", FALSE)
async def test_what_is_no_answer_is_a_defect(how: str) -> None:
    assert (await graded(FALSE[how])).grade == "Defect"


HONEST: dict[str, tuple[FakeEngine, Grade]] = {
    "an error status": (FakeEngine("gateway", status=503), "Tolerable"),
    "an error event": (
        cut(40, Send(chunk(b'data: {"error": {"message": "A broke"}}\n\n')), END),
        "Tolerable",
    ),
    "the whole, but not as asked": (FakeEngine("gateway", otherwise=whole), "Near"),
}


@pytest.mark.parametrize("how", HONEST)
async def test_an_honest_error_is_tolerable_and_a_soft_miss_is_near(how: str) -> None:
    answers, wanted = HONEST[how]

    assert (await graded(answers)).grade == wanted


async def test_an_answer_in_place_of_a_refusal_is_near_at_best() -> None:
    refusal = error(400, "refused by A's policy", code="content_policy_violation")

    shopped = await graded(FakeEngine("gateway", otherwise=whole), "F13")
    unasked = await graded(FakeEngine("gateway", otherwise=refusal), "F13")

    assert shopped.grade == "Defect"  # A was not asked at all
    assert unasked.grade == "Defect"


async def test_every_condition_of_the_table_can_fail() -> None:
    """A gateway that answers without asking A misses what each scenario asks for, if anything."""
    made = await asyncio.gather(*(graded(FakeEngine("g", otherwise=whole), s) for s in FAILS))

    assert {r.run.scenario.name: r.grade for r in made} == FAILS


FAILS: dict[str, Grade] = {
    "F1": "Near",
    "F2": "Defect",
    "F3": "Near",
    "F4": "Defect",
    "F6": "Defect",
    "F11": "Defect",
    "F12": "Defect",
    "F13": "Defect",
    "F16": "Defect",
}
