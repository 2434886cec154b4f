"""What an ingest flood does to queries: `python -m bench.embeddings`.

The gateway before two lanes of the embedded node (all-MiniLM-L6-v2, a process each). Queries come
at a steady pace, whether or not earlier ones are answered, and their latency counts from the moment
they were due. Three times:

    quiet     nothing else
    flood     two clients send batches to the ingest lane without a pause
    one lane  the same flood to the query lane itself: what two lanes, and turns, are for

On a machine with few cores, the lanes share them: see `cores` in what is printed.
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
from collections.abc import AsyncIterator
from pathlib import Path

import httpx

KEY = "sk-bench"
QUERY = "which engine serves the interactive tier, and how is background work kept off it?"
DOCUMENT = "The signaller sets each route by pulling levers in the order that is allowed. " * 6
YAML = """\
model_list:
  - model_name: emb-query
    litellm_params:
      {{model: openai/all-MiniLM-L6-v2, api_base: "http://127.0.0.1:{query}/v1", timeout: 60}}
    model_info: {{mode: embedding, lane: query}}
  - model_name: emb-ingest
    litellm_params:
      {{model: openai/all-MiniLM-L6-v2, api_base: "http://127.0.0.1:{ingest}/v1", timeout: 600}}
    model_info: {{mode: embedding, lane: ingest}}
general_settings: {{master_key: os.environ/BENCH_KEY}}
gateway_settings: {{tiers: {{}}, activity: {{path: "{folder}/activity.jsonl"}}}}
"""


def free_port() -> int:
    """A loopback port that nobody has now."""
    with socket.create_server(("127.0.0.1", 0)) as sock:
        return int(sock.getsockname()[1])


@contextlib.asynccontextmanager
async def process(*command: str, url: str) -> AsyncIterator[None]:
    """Run a server until the block ends; it is ready when `url` answers 200."""
    environ = {**os.environ, "BENCH_KEY": KEY}
    started = await asyncio.create_subprocess_exec(
        sys.executable, *command, env=environ, stderr=asyncio.subprocess.DEVNULL
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


async def measured(url: str, name: str, model: str | None, args: argparse.Namespace) -> str:
    """One row of the table."""
    headers = {"Authorization": f"Bearer {KEY}"}
    async with httpx.AsyncClient(
        base_url=url, headers=headers, timeout=600, trust_env=False
    ) as client:
        counts: list[int] = []
        flooding = [
            asyncio.create_task(flood(client, each, counts)) for each in [model] * 2 if each
        ]
        await asyncio.sleep(1.0 if model else 0.0)
        begun = time.perf_counter()
        took = sorted(await queries(client, a_second=args.rate, seconds=args.seconds))
        documents = sum(counts) / (time.perf_counter() - begun + 1.0)
        for task in flooding:
            task.cancel()
        await asyncio.gather(*flooding, return_exceptions=True)
        await asyncio.sleep(1.0)
    p50, p99 = statistics.median(took), took[int(len(took) * 0.99) - 1]
    return f"{name:<10}{p50:>9.1f}{p99:>9.1f}{took[-1]:>9.1f}{len(took):>9}{documents:>13.1f}"


async def run(args: argparse.Namespace) -> None:
    """Start all, measure, print."""
    ports = {name: free_port() for name in ("query", "ingest", "gateway")}
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "config.yaml"
        file.write_text(YAML.format(**ports, folder=folder))
        async with contextlib.AsyncExitStack() as stack:
            for lane in ("query", "ingest"):
                command = ["-m", "serving.cli", "embeddings", "serve", "--model", "minilm"]
                command += ["--threads", str(args.threads), "--port", str(ports[lane])]
                url = f"http://127.0.0.1:{ports[lane]}/health"
                await stack.enter_async_context(process(*command, url=url))
            base = f"http://127.0.0.1:{ports['gateway']}"
            command = [
                "-m",
                "gateway.cli",
                "serve",
                "-c",
                str(file),
                "--port",
                str(ports["gateway"]),
            ]
            await stack.enter_async_context(process(*command, url=f"{base}/health/live"))
            print(f"{args.rate:g} queries a second, {args.threads} thread(s) a lane, ", end="")
            print(f"{os.cpu_count()} cores; load before: {os.getloadavg()[0]:.1f}")
            print("           p50 ms   p99 ms   max ms  queries  documents/s")
            for name, model in (
                ("quiet", None),
                ("flood", "emb-ingest"),
                ("one lane", "emb-query"),
            ):
                print(await measured(base, name, model, args), flush=True)


def main() -> None:
    """Read the arguments and run."""
    parser = argparse.ArgumentParser(prog="python -m bench.embeddings", description=__doc__)
    parser.add_argument("--rate", type=float, default=5.0, help="queries a second (5)")
    parser.add_argument("--seconds", type=float, default=20.0, help="for each row (20)")
    parser.add_argument("--threads", type=int, default=1, help="of each lane (1)")
    asyncio.run(run(parser.parse_args()))


if __name__ == "__main__":
    main()
