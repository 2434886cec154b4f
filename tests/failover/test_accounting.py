"""The books after each fault: one record, the engine's tokens, each attempt with its reason."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.engine import FakeEngine
from tests.engine_says import Say
from tests.failover import upstream as up
from tests.failover.bench import EVERY_S, Run, bench
from tests.failover.cells import Cell
from tests.failover.pace import later
from tests.failover.reply import TOKENS
from tests.failover.scenarios import ADDED, SCENARIOS
from tests.harness import gateway, total
from tests.node import Node, member

BY_NAME = {s.name: s for s in SCENARIOS + ADDED}
CELLS = tuple(
    Cell(dialect, streamed) for dialect in ("chat", "messages") for streamed in (True, False)
)

# What A did, attempt by attempt; then B, where it was asked.
A_THEN_A = {"F1": "http-429", "F3": "http-500", "F5": "broken", "R1": "http-429", "R2": "http-429"}
THRICE = {"F2": "http-429", "F4": "http-503", "F16": "http-503", "E1": "error-event-503"}
ONCE = {"F6": "timeout", "F7": "timeout", "F12": "http-400", "R3": "http-429"}
A_ALONE = {"F10", "F11"}
CONTINUED = {"F8": ("broken", 40), "F9": ("timeout", 20), "E2": ("error-event-503", 40)}


def outcomes(name: str, cell: Cell) -> list[tuple[str, str]]:
    """The attempts that a record must hold: who, and what became of it."""
    if name in A_THEN_A:
        return [("A", A_THEN_A[name]), ("A", "ok")]
    if name in A_ALONE:
        return [("A", "ok")]
    if name == "F13":
        return [("A", "http-400")]
    if name in ONCE:
        return [("A", ONCE[name]), ("B", "ok")]
    if name in CONTINUED and cell.streamed:
        return [("A", CONTINUED[name][0]), ("B", "ok")]
    if name == "F14":
        return [("A", "broken"), ("B", "ok")]
    return [("A", THRICE.get(name, "broken"))] * 3 + [("B", "ok")]


def tokens(name: str, cell: Cell) -> tuple[int | None, int | None]:
    """What the engine that served has counted: of a continued answer, the second half alone."""
    if name == "F13":
        return None, None
    if name in CONTINUED and cell.streamed:
        begun = CONTINUED[name][1]
        return TOKENS[0] + begun, TOKENS[1] - begun
    return TOKENS


@pytest.mark.parametrize("name", [n for n in BY_NAME if n != "F15"])
async def test_each_fault_leaves_one_record_with_the_engines_tokens(name: str) -> None:
    """ACC-09, ACC-10, F16: failed attempts cost nothing, and each is there with its reason."""
    runs = [Run(BY_NAME[name], c) for c in CELLS if c in BY_NAME[name].cells]

    async with bench(runs) as b:
        await asyncio.gather(*(b.run(run) for run in runs))
        records = await b.running.records(2 * len(runs))  # with the plain call to B after each
        metrics = await b.running.metrics()
        usage = (await b.running.operator.get("/api/usage")).json["lifetime"]["total"]

    by_name = {r["requested_model"]: r for r in records}
    found = {run.cell: summary(by_name[run.group], run) for run in runs}
    assert found == {run.cell: wanted(run) for run in runs}
    for field in ("prompt_tokens", "completion_tokens"):
        spent = sum(r[field] or 0 for r in records)
        assert usage[field] == spent
        assert total_of(metrics, field.removesuffix("_tokens")) == spent
    tried = sum(len(r["attempts"]) for r in records)
    assert total(metrics, "gateway_attempts_total") == tried


def total_of(metrics: str, kind: str) -> float:
    """The sum of the token metric of one kind."""
    lines = [x for x in metrics.splitlines() if f'kind="{kind}"' in x]
    return sum(float(x.rpartition(" ")[2]) for x in lines)


def summary(record: dict[str, Any], run: Run) -> dict[str, Any]:
    """What a record says of attempts, tokens and its end."""
    names = {run.group: "A", run.spare: "B"}
    return {
        "attempts": [(names[x["deployment"]], x["outcome"]) for x in record["attempts"]],
        "tokens": (record["prompt_tokens"], record["completion_tokens"]),
        "estimated": record["estimated"],
        "deployment": names[record["deployment"]],
        "outcome": record["outcome"],
        "status": record["status"],
        "error": record["error"],
    }


def wanted(run: Run) -> dict[str, Any]:
    """What it must say."""
    name, cell = run.scenario.name, run.cell
    attempts, refused = outcomes(name, cell), name == "F13"
    return {
        "attempts": attempts,
        "tokens": tokens(name, cell),
        "estimated": False,
        "deployment": attempts[-1][0],
        "outcome": "refused" if refused else "ok",
        "status": 400 if refused else 200,
        "error": "content_policy_violation" if refused else None,
    }


@pytest.mark.parametrize("streamed", [True, False], ids=["streamed", "whole"])
async def test_failed_attempts_use_up_no_tpm(streamed: bool) -> None:
    """What an attempt had reserved is given back in full when it brought nothing."""
    a = FakeEngine("a", status=503)
    b = FakeEngine("b", otherwise=Say(tokens=(100, 50)))
    node = Node(
        {"chat": member(a, tpm=100_000), "spare": member(b, tpm=100_000)},
        router={"fallbacks": [{"chat": ["spare"]}]},
    )

    async with gateway(node) as g:
        await g.client.ask("chat", stream=streamed)
        routes = (await g.metrics()).splitlines()

    used = {
        name: next(x for x in routes if f'tpm_used{{deployment="{name}"' in x).rpartition(" ")[2]
        for name in ("a", "b")
    }
    assert used == {"a": "0.0", "b": "150.0"}


async def test_an_outage_charges_each_call_once_to_whoever_served() -> None:
    """F15, cut short: one record a call; during the outage B, after it A."""
    run, calls, outage_s = Run(BY_NAME["F15"], Cell("chat", False)), 8, 18.0

    async with bench([run]) as b:
        b.upstream.plays[run.group] = lambda at: (
            up.overloaded(at) if at.since_first_s < outage_s else up.good(at)
        )
        for _ in range(calls):
            await asyncio.gather(b.ask(run.asked, run.cell), later(EVERY_S))
        records = await b.running.records(calls)
        failed = [t for t in b.upstream.tries[run.group] if t.since_first_s < outage_s]

    served = [r["deployment"] for r in records]
    assert {(r["prompt_tokens"], r["completion_tokens"]) for r in records} == {TOKENS}
    assert {r["attempts"][-1]["outcome"] for r in records} == {"ok"}
    assert set(served[:5]) == {run.spare}
    assert served[-1] == run.group
    assert sum(len(r["attempts"]) for r in records) == calls + len(failed)
