"""Embedding servers as processes: started, waited for, stopped by their own id."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import numpy as np
from numpy.typing import NDArray

from tests.ground.repository import ROOT
from tests.served import free_port

Vectors = NDArray[np.float32]


@dataclass(frozen=True)
class Running:
    """A server that answers /health with 200."""

    client: httpx.Client
    process: subprocess.Popen[bytes]
    log: Path
    way: str = ""

    @property
    def url(self) -> str:
        """Its base URL, with /v1."""
        return f"{str(self.client.base_url).rstrip('/')}{self.way}/v1"

    def ask(self, given: object, **fields: Any) -> httpx.Response:
        """POST /v1/embeddings."""
        return self.client.post(f"{self.way}/v1/embeddings", json={"input": given, **fields})

    def vectors(self, given: object, **fields: Any) -> Vectors:
        """The vectors of a good answer."""
        answer = self.ask(given, **fields)
        assert answer.status_code == 200, answer.text
        return np.array([row["embedding"] for row in answer.json()["data"]], dtype=np.float32)


@contextmanager
def running(
    command: Sequence[object], folder: Path, *, port: int, ready: bool = True, **environ: str
) -> Iterator[Running]:
    """Start `command`, which listens on `port`; give it once it is ready; stop it."""
    log = folder / f"server-{port}.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            list(map(str, command)),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env={**os.environ, "PYTHONPATH": str(ROOT), **environ},
        )
    try:
        with httpx.Client(
            base_url=f"http://127.0.0.1:{port}", trust_env=False, timeout=60
        ) as client:
            it = Running(client, process, log)
            if ready:
                wait_until_ready(it)
            yield it
    finally:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def wait_until_ready(it: Running, within_s: float = 60.0) -> None:
    """Ask until /health is 200: another process tells us nothing."""
    deadline = time.monotonic() + within_s
    while True:
        assert it.process.poll() is None, it.log.read_text()
        try:
            if it.client.get("/health").status_code == 200:
                return
        except httpx.TransportError:
            pass
        assert time.monotonic() < deadline, it.log.read_text()
        time.sleep(0.05)  # between two looks at a server that loads


def lane(model: str | Path, *arguments: str, python: str | Path = sys.executable) -> list[str]:
    """The command of a lane; the port is to be added."""
    return [
        *(str(python), "-m", "serving.cli", "embeddings", "serve"),
        *("--model", str(model), "--threads", "1", *arguments),
    ]


@contextmanager
def lane_running(
    folder: Path, model: str | Path, *arguments: str, python: str | Path = sys.executable
) -> Iterator[Running]:
    """A lane that is ready."""
    port = free_port()
    command = lane(model, *arguments, "--port", str(port), python=python)
    with running(command, folder, port=port) as it:
        yield it
