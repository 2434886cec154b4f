"""What an ingest flood does to queries: `python -m bench.embeddings`.

The gateway before lanes of the embedded node (all-MiniLM-L6-v2, a process each). Queries come at a
steady pace, whether or not earlier ones are answered, and their latency counts from the moment they
were due. In each round, in an order that rotates:

    quiet      nothing else
    idle lane  two clients send batches without a pause to an ingest lane of `--priority idle`
    equal      the same flood to an ingest lane that is a process as any other
    one lane   the same flood to the query lane itself: what two lanes, and turns, are for

The table shows medians over the rounds; the ratio to quiet is taken within each round. On a machine
with few cores, the lanes share them: see `cores` in what is printed.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import socket
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import httpx

KEY = "sk-bench"
QUERY = "which engine serves the interactive tier, and how is background work kept off it?"
DOCUMENT = "The signaller sets each route by pulling levers in the order that is allowed. " * 6
LANES = {  # group -> what its process is started with besides
    "emb-query": (),
    "emb-idle": ("--priority", "idle"),
    "emb-equal": (),
}
ROWS = {"quiet": None, "idle lane": "emb-idle", "equal": "emb-equal", "one lane": "emb-query"}
DEPLOYMENT = """\
  - model_name: {name}
    litellm_params:
      {{model: openai/all-MiniLM-L6-v2, api_base: "http://127.0.0.1:{port}/v1", timeout: 600}}
    model_info: {{mode: embedding, lane: {lane}}}
"""
SETTINGS = """\
general_settings: {{master_key: os.environ/BENCH_KEY}}
gateway_settings: {{tiers: {{}}, activity: {{path: "{folder}/activity.jsonl"}}}}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """What the queries of one row in one round saw."""

    p50_ms: float
    p99_ms: float
    max_ms: float
    documents_s: float


def free_port() -> int:
    """A loopback port that nobody has now."""
    with socket.create_server(("127.0.0.1", 0)) as sock:
        return int(sock.getsockname()[1])


@contextlib.asynccontextmanager
async def process(*command: str, url: str) -> AsyncIterator[None]:
    """Run a server until the block ends; it is ready when `url` answers 200.

    In a session of its own, as the node, a unit or a container would start it: Linux shares the
    processor between sessions first.
    """
    environ = {**os.environ, "BENCH_KEY": KEY}
    started = await asyncio.create_subprocess_exec(
        sys.executable,
        *command,
        env=environ,
        stderr=asyncio.subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        async with httpx.AsyncClient(trust_env=False) as client, asyncio.timeout(120):
            while True:
                with contextlib.suppress(httpx.TransportError):
                    if (await client.get(url)).status_code == 200:
                        break
                if started.returncode is not None:
                    raise SystemExit(f"{' '.join(command)} ended with {started.returncode}")
                await asyncio.sleep(0.05)
        yield
    finally:
        if started.returncode is None:
            started.terminate()
        await started.wait()


async def query(client: httpx.AsyncClient, due: float, number: int) -> float:
    """One query; its latency from when it was due, in ms."""
    body = {"model": "emb-query", "input": f"{QUERY} {number}"}
    (await client.post("/v1/embeddings", json=body)).raise_for_status()
    return (time.perf_counter() - due) * 1000


async def queries(client: httpx.AsyncClient, *, a_second: float, seconds: float) -> list[float]:
    """Queries at a steady pace."""
    start = time.perf_counter()
    sent = []
    for number in range(int(a_second * seconds)):
        due = start + number / a_second
        await asyncio.sleep(max(0.0, due - time.perf_counter()))
        sent.append(asyncio.create_task(query(client, due, number)))
    return list(await asyncio.gather(*sent))


async def flood(client: httpx.AsyncClient, model: str, counts: list[int]) -> None:
    """Batches of documents without a pause, until cancelled."""
    while True:
        body = {"model": model, "input": [f"{number} {DOCUMENT}" for number in range(32)]}
        answer = await client.post("/v1/embeddings", json=body)
        counts.append(32 if answer.status_code == 200 else 0)


async def measured(url: str, model: str | None, args: argparse.Namespace) -> Cell:
    """Queries beside a flood of `model`, or beside nothing."""
    headers = {"Authorization": f"Bearer {KEY}"}
    async with httpx.AsyncClient(
        base_url=url, headers=headers, timeout=600, trust_env=False
    ) as client:
        counts: list[int] = []
        flooding = [
            asyncio.create_task(flood(client, each, counts)) for each in [model] * 2 if each
        ]
        await asyncio.sleep(1.0)
        begun = time.perf_counter()
        took = sorted(await queries(client, a_second=args.rate, seconds=args.seconds))
        documents = sum(counts) / (time.perf_counter() - begun + 1.0)
        for task in flooding:
            task.cancel()
        await asyncio.gather(*flooding, return_exceptions=True)
        await asyncio.sleep(1.0)  # what the flood left is dropped
    return Cell(
        p50_ms=statistics.median(took),
        p99_ms=took[max(0, int(len(took) * 0.99) - 1)],
        max_ms=took[-1],
        documents_s=documents,
    )


async def rounds(url: str, args: argparse.Namespace) -> dict[str, list[Cell]]:
    """Every row in every round; a line of dots says how far it is."""
    found: dict[str, list[Cell]] = {name: [] for name in ROWS}
    names = list(ROWS)
    for number in range(args.rounds):
        turn = number % len(names)
        for name in names[turn:] + names[:turn]:
            found[name].append(await measured(url, ROWS[name], args))
            print(".", end="", flush=True, file=sys.stderr)
    print(file=sys.stderr)
    return found


def table(found: dict[str, list[Cell]]) -> str:
    """Medians over the rounds, and the median of the ratios to the same round's quiet row."""
    lines = [
        f"{'':<10}{'p50 ms':>9}{'p99 ms':>9}{'max ms':>9}{'p50':>9}{'p99':>9}{'documents/s':>13}"
    ]
    for name, cells in found.items():
        figures = [statistics.median(each) for each in zip(*map(_figures, cells), strict=True)]
        ratios = [
            statistics.median(_ratio(cells, found["quiet"], which))
            for which in ("p50_ms", "p99_ms")
        ]
        shown = "".join(f"{figure:>9.1f}" for figure in figures[:3])
        shown += "".join(f"{ratio:>8.2f}x" for ratio in ratios)
        lines.append(f"{name:<10}{shown}{figures[3]:>13.1f}")
    return "\n".join(lines)


def _figures(cell: Cell) -> tuple[float, ...]:
    return (cell.p50_ms, cell.p99_ms, cell.max_ms, cell.documents_s)


def _ratio(cells: Sequence[Cell], quiet: Sequence[Cell], which: str) -> list[float]:
    return [getattr(a, which) / getattr(b, which) for a, b in zip(cells, quiet, strict=True)]


def routing(ports: dict[str, int], folder: str) -> str:
    """The gateway's file: a group for each lane."""
    lanes = {name: "query" if name == "emb-query" else "ingest" for name in ports}
    entries = [
        DEPLOYMENT.format(name=name, port=port, lane=lanes[name]) for name, port in ports.items()
    ]
    return "model_list:\n" + "".join(entries) + SETTINGS.format(folder=folder)


async def run(args: argparse.Namespace) -> None:
    """Start all, measure, print."""
    ports = {name: free_port() for name in LANES}
    front = free_port()
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "config.yaml"
        file.write_text(routing(ports, folder))
        async with contextlib.AsyncExitStack() as stack:
            for name, port in ports.items():
                command = ["-m", "serving.cli", "embeddings", "serve", "--model", "minilm"]
                command += ["--threads", str(args.threads), "--port", str(port), *LANES[name]]
                url = f"http://127.0.0.1:{port}/health"
                await stack.enter_async_context(process(*command, url=url))
            base = f"http://127.0.0.1:{front}"
            command = ["-m", "gateway.cli", "serve", "-c", str(file), "--port", str(front)]
            await stack.enter_async_context(process(*command, url=f"{base}/health/live"))
            print(
                f"{args.rounds} rounds, {args.rate:g} queries a second for {args.seconds:g} s, ",
                end="",
            )
            print(f"{args.threads} thread(s) a lane, {os.cpu_count()} cores; ", end="")
            print(f"load before: {os.getloadavg()[0]:.1f}", flush=True)
            print(table(await rounds(base, args)))


def main() -> None:
    """Read the arguments and run."""
    parser = argparse.ArgumentParser(prog="python -m bench.embeddings", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3, help="of all four rows (3)")
    parser.add_argument("--rate", type=float, default=5.0, help="queries a second (5)")
    parser.add_argument("--seconds", type=float, default=20.0, help="for each cell (20)")
    parser.add_argument("--threads", type=int, default=1, help="of each lane (1)")
    asyncio.run(run(parser.parse_args()))


if __name__ == "__main__":
    main()
