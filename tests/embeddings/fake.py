"""A model that computes nothing, with settings; and the server around it, on a real socket."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import httpx
import numpy as np
import uvicorn
from tokenizers import Tokenizer, models, pre_tokenizers, processors

from serving.embeddings.app import Limits, Server
from serving.embeddings.encoder import Row, Step, Traits, Vectors
from serving.embeddings.lane import Lane

TERMINAL = 1
WORDS = {"<unk>": 0, "<end>": TERMINAL, **{f"w{number}": number for number in range(2, 100)}}


def tokenizer(ends: int = 1) -> Tokenizer:
    """One token a word: `w7` is 7, and so many terminal tokens at the end."""
    made = Tokenizer(models.WordLevel(WORDS, unk_token="<unk>"))
    made.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    if ends:
        made.post_processor = processors.TemplateProcessing(
            single="$A" + " <end>" * ends, special_tokens=[("<end>", TERMINAL)]
        )
    return made


def words(count: int) -> str:
    """A text that is `count` tokens long with its terminal token."""
    return " ".join(["w5"] * (count - 1))


@dataclass
class FakeEncoder:
    """Vectors that name their row. While `open` is clear, a pass waits; `passes` are their rows."""

    traits: Traits = field(
        default_factory=lambda: Traits(
            name="fake", dimensions=4, max_tokens=100, pass_tokens=16, waiting_tokens=200
        )
    )
    tokenizer: Tokenizer = field(default_factory=tokenizer)
    fails: bool = False
    passes: list[list[int]] = field(default_factory=list)
    open: threading.Event = field(default_factory=threading.Event)
    running: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self.open.set()

    def encode(self, rows: Sequence[Row]) -> Vectors:
        self._pass([len(row) for row in rows])
        return np.array([self.vector(row) for row in rows], dtype=np.float32)

    def steps(self, row: Row, step_tokens: int) -> Iterator[Step]:
        for start in range(0, len(row), step_tokens):
            part = row[start : start + step_tokens]
            self._pass([len(part)])
            last = start + len(part) == len(row)
            vectors = np.array([self.vector(row)], dtype=np.float32)
            yield Step(tokens=len(part), vectors=vectors if last else None)

    def _pass(self, lengths: list[int]) -> None:
        self.passes.append(lengths)
        self.running.set()
        assert self.open.wait(20)
        if self.fails:
            raise RuntimeError("no memory")

    def vector(self, row: Row) -> list[float]:
        whole = np.array([len(row), row[0], row[-1], 1.0])
        return list(whole / np.linalg.norm(whole))


@dataclass
class Served:
    """A server around a fake, and a client of it."""

    server: Server
    lane: Lane
    encoder: FakeEncoder
    client: httpx.AsyncClient

    async def ask(self, given: object, **fields: object) -> httpx.Response:
        return await self.client.post("/v1/embeddings", json={"input": given, **fields})

    async def metric(self, name: str) -> float:
        text = (await self.client.get("/metrics")).text
        [line] = [each for each in text.splitlines() if each.startswith(f"{name} ")]
        return float(line.rsplit(" ", 1)[1])


@asynccontextmanager
async def served(
    encoder: FakeEncoder, *, key: str | None = None, limits: Limits | None = None
) -> AsyncIterator[Served]:
    """Serve until the block ends; the passes of the warm-up are forgotten."""
    server = Server(limits or Limits(), key=key)
    config = uvicorn.Config(server.app, port=0, log_config=None, lifespan="off", loop="asyncio")
    front = uvicorn.Server(config)
    front.install_signal_handlers = lambda: None  # type: ignore[attr-defined]
    lane = await server.become_ready(encoder)
    encoder.passes.clear()
    encoder.running.clear()
    passes = asyncio.create_task(lane.run())
    serving = asyncio.create_task(front._serve())
    while not front.started:
        await asyncio.sleep(0.01)
    port = front.servers[0].sockets[0].getsockname()[1]
    try:
        async with httpx.AsyncClient(
            base_url=f"http://127.0.0.1:{port}", trust_env=False, timeout=20
        ) as client:
            yield Served(server, lane, encoder, client)
    finally:
        encoder.open.set()
        front.should_exit = True
        await serving
        passes.cancel()
        await asyncio.gather(passes, return_exceptions=True)
        await lane.close()
        server.close()


async def until(true: object, within_s: float = 10.0) -> None:
    """Ask again and again until it is true."""
    async with asyncio.timeout(within_s):
        while True:
            found = true() if callable(true) else true
            if asyncio.iscoroutine(found):
                found = await found
            if found:
                return
            await asyncio.sleep(0.01)
