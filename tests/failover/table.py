"""The table of grades, for people: one row a scenario, one column a dialect and route."""

from __future__ import annotations

from collections.abc import Iterable

from tests.failover.bench import Result
from tests.failover.cells import CELLS, THE_CALL, Cell
from tests.failover.judging import GRADES, Grade
from tests.failover.scenarios import ADDED, SCENARIOS

COLUMNS = tuple(dict.fromkeys((c.dialect, c.route) for c in CELLS))


def worst(grades: Iterable[Grade]) -> Grade | None:
    """The worst of some grades; None if there is none."""
    return max(grades, key=GRADES.index, default=None)


def table(results: Iterable[Result]) -> str:
    """Markdown: streamed / whole in each column, the worst of alias and direct name."""
    results = list(results)
    titles = [f"{d}{'' if r == 'relayed' else ', bridged'}" for d, r in COLUMNS]
    lines = [
        "Each cell: streamed / not streamed, the worse of alias and direct; `-`: cannot exist.",
        "",
        "| | scenario | " + " | ".join(titles) + " | took, aim, limit (streamed chat) |",
        "|---" * (len(titles) + 3) + "|",
    ]
    for scenario in SCENARIOS + ADDED:
        mine = [r for r in results if r.run.scenario is scenario]
        if not mine:
            continue
        cells = [" / ".join(_cell(mine, d, r, s) for s in (True, False)) for d, r in COLUMNS]
        took = max((c.took_s for r in mine if r.run.cell == THE_CALL for c in r.calls), default=0.0)
        limits = f"{took:.1f} s, {scenario.aim_s:g} s, {scenario.within_s:g} s"
        lines.append(f"| {scenario.name} | {scenario.title} | {' | '.join(cells)} | {limits} |")
    return "\n".join([*lines, "", *_rest(results)])


def _cell(results: list[Result], dialect: str, route: str, streamed: bool) -> str:
    fits = (
        r.grade
        for r in results
        if _of(r.run.cell, dialect, route) and r.run.cell.streamed is streamed
    )
    return worst(fits) or "-"


def _of(cell: Cell, dialect: str, route: str) -> bool:
    return (cell.dialect, cell.route) == (dialect, route)


def _rest(results: list[Result]) -> list[str]:
    """How many of each grade, and why a cell is not Met."""
    counts = {g: sum(r.grade == g for r in results) for g in GRADES}
    lines = [", ".join(f"{n} {grade}" for grade, n in counts.items() if n) + "."]
    not_met = [r for r in results if r.grade != "Met"]
    return [*lines, *([""] if not_met else []), *(f"- {r.run.group}: {r}" for r in not_met)]
