"""Which rows make up the next pass of the model. Pure: values in, a value out.

A pass cannot be interrupted, so it is short: `pass_tokens`, padding included. A row longer than
that is computed in several passes, and others run between them. Turns alternate:

    quick turn     the smallest whole requests that fit one pass, smallest first
    oldest turn    the row that has waited longest, with rows near its length

So a small request waits for the pass that runs and at most one more, and then for smaller ones that
came before: never for a long text or a bulk request as a whole. And every row is served in the end,
since each second pass is led by the oldest.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

Turn = Literal["quick", "oldest"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """One row that waits: `arrived` orders rows and names them."""

    arrived: int
    tokens: int  # still to compute
    request_tokens: int  # of its whole request, still to compute
    begun: bool = False  # a long row with passes behind it


@dataclass(frozen=True, slots=True, kw_only=True)
class Pass:
    """Rows to compute together; `step` where it is one part of one long row."""

    rows: tuple[int, ...]  # by `arrived`
    step: bool = False


def choose(waiting: Sequence[Waiting], turn: Turn, *, pass_tokens: int, pass_rows: int) -> Pass:
    """The next pass; `waiting` is not empty.

    1. Quick turn, and there is a request that fits one pass: the smallest ones.
    2. The oldest row is longer than a pass: its next part. Only one such row is under way at a
       time, since its state takes memory.
    3. Else the oldest row and those nearest to it in length.
    """
    quick = [row for row in waiting if row.request_tokens <= pass_tokens and not row.begun]
    if turn == "quick" and quick:  # 1
        quick.sort(key=lambda row: (row.request_tokens, row.arrived))
        return Pass(rows=_fitting(quick, pass_tokens, pass_rows))
    leader = min(waiting, key=lambda row: row.arrived)
    if leader.tokens > pass_tokens or leader.begun:  # 2
        begun = next((row for row in waiting if row.begun), leader)
        return Pass(rows=(begun.arrived,), step=True)
    near = sorted(  # 3
        (row for row in waiting if row.tokens <= pass_tokens and not row.begun),
        key=lambda row: (row is not leader, abs(row.tokens - leader.tokens), row.arrived),
    )
    return Pass(rows=_fitting(near, pass_tokens, pass_rows))


def _fitting(rows: Iterable[Waiting], pass_tokens: int, pass_rows: int) -> tuple[int, ...]:
    """The first rows that fit, counted as the model computes them: each as long as the longest."""
    taken: list[int] = []
    longest = 0
    for row in rows:
        longest = max(longest, row.tokens)
        if taken and ((len(taken) + 1) * longest > pass_tokens or len(taken) == pass_rows):
            break
        taken.append(row.arrived)
    return tuple(taken)
