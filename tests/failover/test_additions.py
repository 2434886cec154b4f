"""What the sixteen scenarios do not reach, and what they say of many runs or callers at once."""

from __future__ import annotations

import asyncio
import statistics

import pytest

from tests.engine_answers import Answer, Pause
from tests.failover import upstream as up
from tests.failover.bench import EVERY_S, Bench, Run, bench, deployment
from tests.failover.cells import CELLS, RELAYED, THE_CALL, Cell
from tests.failover.judging import Call, call
from tests.failover.pace import LoopClock, later, now_s
from tests.failover.scenarios import SCENARIOS
from tests.failover.upstream import Try, Upstream
from tests.harness import gateway
from tests.node import Node

BY_NAME = {s.name: s for s in SCENARIOS}
PLAIN = tuple(c for c in CELLS if not c.alias and c.route == "relayed")


async def test_the_spacing_of_tries_varies_between_runs() -> None:
    """F2: many callers that retry in step turn a throttle into an outage."""
    runs = [Run(BY_NAME["F2"], cell) for cell in RELAYED]

    async with bench(runs) as b:
        results = await asyncio.gather(*(b.run(run) for run in runs))

    gaps = [r.story.since_first(2) for r in results]
    assert len(gaps) == len(RELAYED)
    assert statistics.stdev(gaps) > 0.05
    assert max(gaps) < 1.5


@pytest.mark.parametrize("cell", PLAIN, ids=[c.name for c in PLAIN])
async def test_without_a_spare_an_overload_is_as_own_status_and_message(cell: Cell) -> None:
    """F4: dressed as something else it would send people after the wrong fault."""
    upstream = Upstream(plays={"m": up.overloaded})
    node = Node({"m": deployment(upstream, "m", cell)}, router={"num_retries": 2})

    async with gateway(node, clock=LoopClock()) as g:
        got = await Bench(g, upstream).ask("m", cell)

    assert got.status == 503
    assert got.error is not None
    assert got.error["message"] == "A has no room"
    assert len(upstream.tries["m"]) == 3


def everywhere_ill(at: Try) -> Answer:
    """Another status than A's, so that one can be told from the other."""
    return up.refusal(at, 500, "api_error", "B is ill")


@pytest.mark.parametrize("cell", PLAIN, ids=[c.name for c in PLAIN])
async def test_the_spare_fails_as_well_and_the_caller_hears_of_a_in_bounded_time(
    cell: Cell,
) -> None:
    run = Run(BY_NAME["F4"], cell)

    async with bench([run]) as b:
        b.upstream.plays[run.spare] = everywhere_ill
        got = await call(b.ask(run.asked, cell), 40.0)
        tries = {name: len(tries) for name, tries in b.upstream.tries.items()}

    assert got.kind == "error"
    assert got.reply is not None
    assert got.reply.status == 503
    assert got.reply.error is not None
    assert "A has no room" in got.reply.error["message"]
    assert tries == {run.group: 3, run.spare: 3}


class Parallel:
    """F15 with many callers: A's answers take a second, so that two at once would be seen."""

    def __init__(self) -> None:
        self.peaks: list[tuple[float, int]] = []  # when a try came, and how many were under way

    def play(self, upstream: Upstream, name: str) -> up.Play:
        """A's part."""

        def answer(at: Try) -> Answer:
            self.peaks.append((at.since_first_s, upstream.at_once(name)))
            return (
                Pause(1.0),
                *(up.overloaded(at) if at.since_first_s < OUTAGE_S else up.good(at)),
            )

        return answer


OUTAGE_S, ROUNDS = 32.0, 12


@pytest.mark.parametrize("streamed", [True, False], ids=["streamed", "whole"])
async def test_in_an_outage_with_parallel_callers_one_trial_reaches_a_at_a_time(
    streamed: bool,
) -> None:
    """F15: eight callers every 4 s: rest A after a few failures, then send it one trial."""
    run, parallel, callers = Run(BY_NAME["F15"], Cell("chat", streamed)), Parallel(), 8

    async with bench([run]) as b:
        b.upstream.plays[run.group] = parallel.play(b.upstream, run.group)
        began, rounds = now_s(), []
        for number in range(ROUNDS):
            await later(began + number * EVERY_S - now_s())
            asked = [call(b.ask(run.asked, run.cell), 30.0) for _ in range(callers)]
            rounds.append(await asyncio.gather(*asked))

    calls: list[Call] = [c for several in rounds for c in several]
    trials = [(at, many) for at, many in parallel.peaks if 4.0 < at < OUTAGE_S]
    after = [at for at, _ in parallel.peaks if at >= OUTAGE_S]
    assert {c.kind for c in calls} == {"whole"}
    assert {many for _, many in trials} == {1}
    assert 2 <= len(trials) <= OUTAGE_S / 10 + 1
    assert min(after) - OUTAGE_S < 16
    assert len(after) > callers  # the crowd is back


async def test_a_trial_that_ends_after_the_rest_period_still_ends_it() -> None:
    """F15: a trial call that succeeds counts, even if it is slower than the next rest would be."""
    run = Run(BY_NAME["F15"], THE_CALL)

    async with bench([run]) as b:
        b.upstream.plays[run.group] = lambda at: (
            up.overloaded(at) if at.since_first_s < 5 else (Pause(11.0), *up.good(at))
        )
        for _ in range(2):
            await call(b.ask(run.asked, run.cell), 30.0)
        await later(11.0)
        trial = await call(b.ask(run.asked, run.cell), 30.0)
        b.upstream.plays[run.group] = up.good
        next_call = await call(b.ask(run.asked, run.cell), 30.0)

    assert (trial.kind, next_call.kind) == ("whole", "whole")
    assert trial.took_s > 10
    assert next_call.reply is not None
    assert next_call.reply.deployment == run.group
