"""One run of the load generator (load.c) and what it saw."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.rig import RigError

CHUNKS = 50  # content events in each streamed answer
SENTENCE = (
    "Reply in one short sentence. Which city is the capital of France, and on which river does "
    "it lie? Do not explain how you know, and do not add anything else to the answer."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """Figures of one run, as load.c prints them; `sent` and `whole` count warm-up and drain too."""

    ok: int
    bad: int  # wrong, cut short or refused answers
    example: str  # of a bad answer
    rps: float
    chunks_s: float
    p50_ms: float | None
    p99_ms: float | None
    ttft_p50_ms: float | None
    ttft_p99_ms: float | None
    no_usage: int
    reconnects: int
    sent: int
    whole: int
    in_flight: int  # never answered
    chunks: int


def body(model: str, *, stream: bool) -> bytes:
    """A chat request of a few hundred bytes, compact, as the official Python client sends it."""
    request: dict[str, Any] = {
        "model": model,
        "messages": [
            {"role": "system", "content": "You are a careful assistant who answers briefly."},
            {"role": "user", "content": SENTENCE},
        ],
        "temperature": 0.7,
        "top_p": 0.95,
        "max_tokens": 256,
        "user": "bench-user-0001",
        "stream": stream,
    }
    if stream:
        request["stream_options"] = {"include_usage": True}
    return json.dumps(request, separators=(",", ":")).encode()


def run_load(
    program: Path,
    body_file: Path,
    *,
    port: int,
    path: str,
    headers: Sequence[str],
    clients: int,
    stream: bool,
    warm_s: float,
    seconds: float,
    core: int | None = None,
) -> Seen:
    """What `clients` closed-loop clients saw; RigError if the load generator itself failed."""
    command = [str(program), "-p", str(port), "-b", str(body_file), "-u", path]
    command += ["-c", str(clients), "-d", str(seconds), "-w", str(warm_s), "-n", str(CHUNKS)]
    command += ["-s"] if stream else []
    for header in headers:
        command += ["-H", header]
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
        timeout=warm_s + seconds + 30,
        preexec_fn=None if core is None else lambda: os.sched_setaffinity(0, {core}),
    )
    if done.returncode != 0:
        raise RigError(f"the load generator failed: {done.stderr.strip()[:300]}")
    return Seen(**json.loads(done.stdout))
