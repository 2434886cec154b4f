"""The lane: rows wait here, one pass of the model runs at a time, vectors go back to who asked.

Everything but the model runs on the loop; the model has one thread of its own. A request whose
caller has gone is taken out before its next pass.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import numpy as np
import structlog

from serving.embeddings.encoder import Encoder, Step, Vectors
from serving.embeddings.metrics import Metrics
from serving.embeddings.passes import Pass, Turn, Waiting, choose
from serving.embeddings.refusals import Busy, Failed, TooLarge

_log = structlog.get_logger("embeddings")
_RETRY_AFTER_MOST_S = 60
_WAITING_ROWS = 8192  # choosing looks at each of them before each pass
_NEWEST = 0.2  # weight of the last pass in the running figure of speed


@dataclass(slots=True, eq=False)
class _Request:
    """One request under way."""

    vectors: list[Vectors | None]
    done: asyncio.Future[Vectors]
    tokens: int  # still to compute


@dataclass(slots=True, eq=False)
class _Row:
    """One row of a request, until its vector is there."""

    request: _Request
    index: int
    ids: Sequence[int]
    since: float
    tokens: int  # still to compute
    steps: Iterator[Step] | None = field(default=None)


class Lane:
    """Owns the queue and the model's thread. `run` is started once, by the server."""

    def __init__(
        self, encoder: Encoder, metrics: Metrics, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._encoder = encoder
        self.traits = encoder.traits
        self._metrics = metrics
        self._clock = clock
        self._rows: dict[int, _Row] = {}  # by arrival
        self._arrivals = 0
        self._turn: Turn = "quick"
        self._work = asyncio.Event()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="model")
        self.pass_s = 0.0  # the longest pass: measured before anybody is served, then as they come
        self.tokens_per_s = 0.0

    @property
    def waiting_tokens(self) -> int:
        """What is not computed yet."""
        return sum(row.tokens for row in self._rows.values())

    async def warm_up(self) -> None:
        """Run two full passes; `/health` states the bound by the second one's time."""
        rows = [[1] * (self.traits.pass_tokens // 4)] * 4
        for _ in range(2):
            begun = self._clock()
            await self._in_thread(lambda: self._whole(rows))
            self.pass_s = self._clock() - begun
        self.tokens_per_s = self.traits.pass_tokens / max(self.pass_s, 1e-6)

    async def embed(self, rows: Sequence[Sequence[int]]) -> Vectors:
        """The vectors of `rows`, in their order. Raises TooLarge, Busy or Failed.

        Cancelled, it takes out what has not been computed.
        """
        self._admit(rows)
        tokens = sum(map(len, rows))
        done: asyncio.Future[Vectors] = asyncio.get_running_loop().create_future()
        request = _Request([None] * len(rows), done, tokens)
        for index, ids in enumerate(rows):
            self._rows[self._arrivals] = _Row(request, index, ids, self._clock(), len(ids))
            self._arrivals += 1
        self._work.set()
        try:
            return await done
        finally:
            self._take_out(request)

    def _admit(self, rows: Sequence[Sequence[int]]) -> None:
        tokens, most = sum(map(len, rows)), self.traits.waiting_tokens
        if tokens > most or len(rows) > _WAITING_ROWS:
            raise TooLarge(
                f"{tokens} tokens in {len(rows)} inputs; one request may bring {most} tokens in "
                f"{_WAITING_ROWS} inputs: send them in parts",
                param="input",
            )
        waiting = self.waiting_tokens
        if waiting + tokens > most or len(self._rows) + len(rows) > _WAITING_ROWS:
            needed_s = math.ceil((waiting + tokens - most) / max(self.tokens_per_s, 1.0))
            raise Busy(
                f"{waiting} tokens are waiting, and {most} is the limit: try again later",
                retry_after_s=max(1, min(_RETRY_AFTER_MOST_S, needed_s)),
            )

    def _take_out(self, request: _Request) -> None:
        left = [arrived for arrived, row in self._rows.items() if row.request is request]
        for arrived in left:
            del self._rows[arrived]
        if left:
            self._metrics.dropped_rows.inc(len(left))

    async def run(self) -> None:
        """Compute passes until cancelled."""
        while True:
            if not self._rows:
                self._work.clear()
                await self._work.wait()
            waiting = [_seen(arrived, row) for arrived, row in self._rows.items()]
            limits = self.traits
            chosen = choose(
                waiting, self._turn, pass_tokens=limits.pass_tokens, pass_rows=limits.pass_rows
            )
            self._turn = "oldest" if self._turn == "quick" else "quick"
            await self._compute(chosen)

    async def _compute(self, chosen: Pass) -> None:
        rows = {arrived: self._rows[arrived] for arrived in chosen.rows}
        begun = self._clock()
        for row in rows.values():
            if row.steps is None:
                self._metrics.waited_s.observe(begun - row.since)
        try:
            done = await self._in_thread(self._work_of(chosen, list(rows.values())))
        except Exception as error:  # noqa: BLE001 - the model's own failures have no common root
            self._fail(list(rows.values()), error)
            return
        took = self._clock() - begun
        self.pass_s = max(self.pass_s, took)
        self._metrics.saw_pass(rows=len(rows), tokens=done.tokens, took_s=took)
        self.tokens_per_s += _NEWEST * (done.tokens / max(took, 1e-6) - self.tokens_per_s)
        self._deliver(rows, done)

    def _work_of(self, chosen: Pass, rows: list[_Row]) -> Callable[[], Step]:
        """What the model's thread does for this pass."""
        if not chosen.step:
            return lambda: self._whole([row.ids for row in rows])
        [row] = rows
        if row.steps is None:
            row.steps = self._encoder.steps(row.ids, self.traits.pass_tokens)
        steps = row.steps
        return lambda: next(steps)

    def _whole(self, rows: Sequence[Sequence[int]]) -> Step:
        return Step(tokens=sum(map(len, rows)), vectors=self._encoder.encode(rows))

    def _deliver(self, rows: dict[int, _Row], done: Step) -> None:
        """Give each row its vector; a long row that goes on only has less before it."""
        for place, (arrived, row) in enumerate(rows.items()):
            computed = done.tokens if row.steps is not None else row.tokens
            row.tokens -= computed
            row.request.tokens -= computed
            if done.vectors is None:
                continue
            self._rows.pop(arrived, None)  # its caller may have gone meanwhile
            row.request.vectors[row.index] = done.vectors[place]
            whole = [each for each in row.request.vectors if each is not None]
            if len(whole) == len(row.request.vectors) and not row.request.done.done():
                row.request.done.set_result(np.stack(whole))

    def _fail(self, rows: list[_Row], error: Exception) -> None:
        _log.error("pass failed", reason=f"{type(error).__name__}: {error}", rows=len(rows))
        for request in {id(row.request): row.request for row in rows}.values():
            self._take_out(request)
            if not request.done.done():
                request.done.set_exception(
                    Failed("the model could not compute this input; the log says why")
                )

    async def _in_thread(self, work: Callable[[], Step]) -> Step:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)

    async def close(self) -> None:
        """Let the pass that runs end; nothing new begins."""
        await asyncio.to_thread(self._thread.shutdown, wait=True, cancel_futures=True)


def _seen(arrived: int, row: _Row) -> Waiting:
    return Waiting(
        arrived=arrived,
        tokens=row.tokens,
        request_tokens=row.request.tokens,
        begun=row.steps is not None,
    )
