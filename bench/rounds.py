"""The run itself: rounds, in which each contender has its turn alone on its core."""

from __future__ import annotations

import http.client
import os
import secrets
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass, field
from pathlib import Path

from bench.contenders import CHAT, UPSTREAMS, Contender, Scene
from bench.load import CHUNKS, Seen, body, run_load
from bench.rig import (
    BUILT,
    Cores,
    RigError,
    Running,
    build,
    free_ports,
    running,
    wait_until_ready,
)

MODEL = "primary-chat"
SETTLE_S = 0.5


@dataclass(frozen=True, slots=True)
class Cell:
    """One measurement: so many clients, streamed or not."""

    clients: int
    stream: bool

    def __str__(self) -> str:
        return f"{self.clients} {'streams' if self.stream else 'clients'}"


CELLS = (Cell(1, False), Cell(16, False), Cell(64, False), Cell(16, True), Cell(64, True))


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What one cell gave; CPU microseconds of the contender alone, None for direct."""

    cell: Cell
    seen: Seen
    cpu_us_per_request: float | None
    cpu_us_per_chunk: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """One contender in one round. Records are None where it writes none."""

    contender: str
    round: int
    start_s: float | None
    idle_mb: float | None
    after_mb: float | None
    cells: tuple[Measured, ...]
    requests: int
    records: int | None
    records_ok: int | None
    stop_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Rig:
    """What every turn of a run shares."""

    cores: Cores
    load: Path
    folder: Path
    upstreams: tuple[int, ...]
    seconds: float
    bodies: dict[bool, Path]


def run(
    contenders: Sequence[Contender],
    *,
    cores: Cores,
    rounds: int,
    seconds: float,
    say: Callable[[str], None],
) -> list[Turn]:
    """Every contender's turn in every round, in an order that rotates from round to round.

    A contender that does not start is named once and left out from then on.
    """
    turns: list[Turn] = []
    left = list(contenders)
    with ExitStack() as stack:
        rig = _set_up(stack, cores, seconds)
        for number in range(rounds):
            shift = number % max(1, len(left))
            for contender in [*left[shift:], *left[:shift]]:
                say(f"round {number + 1} of {rounds}: {contender.name}")
                try:
                    turns.append(_turn(contender, number, rig, say))
                except RigError as problem:
                    say(f"  {contender.name} is left out: {problem}")
                    left.remove(contender)
    return turns


def _set_up(stack: ExitStack, cores: Cores, seconds: float) -> Rig:
    load, upstream = build("load"), build("upstream")
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="run-", dir=BUILT)))
    ports = free_ports(UPSTREAMS)
    bodies = {stream: folder / f"body-{int(stream)}.json" for stream in (False, True)}
    for stream, file in bodies.items():
        file.write_bytes(body(MODEL, stream=stream))
    command = [str(upstream), "-n", str(CHUNKS), *map(str, ports)]
    log = folder / "upstream.log"
    engine = stack.enter_context(
        running(command, core=cores.load, log=log, cwd=folder, environ={"PATH": os.defpath})
    )
    wait_until_ready(engine, ports[0], "/health", 5.0)
    return Rig(
        cores=cores, load=load, folder=folder, upstreams=ports, seconds=seconds, bodies=bodies
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """What is asked at this moment; `process` is None where the stand-in engine itself is."""

    contender: Contender
    port: int
    key: str = field(repr=False)
    process: Running | None


def _turn(contender: Contender, number: int, rig: Rig, say: Callable[[str], None]) -> Turn:
    """Start it, measure it idle, send every cell's load, stop it, count its records."""
    scene = _scene(rig, f"{number}-{contender.name}")
    start_s = idle_mb = after_mb = None
    with _started(contender, scene, rig) as process:
        if process is not None:
            start_s = wait_until_ready(process, scene.port, contender.ready_path)
            time.sleep(SETTLE_S)
            idle_mb = process.rss_mb()
        port = rig.upstreams[0] if process is None else scene.port
        subject = Subject(contender=contender, port=port, key=scene.key, process=process)
        for body_file in rig.bodies.values():
            _probe(subject, body_file)
        cells = tuple(_cell(subject, cell, rig, say) for cell in CELLS)
        after_mb = process.rss_mb() if process is not None else None
        began = time.monotonic()
    stop_s = time.monotonic() - began
    counted = _count_records(scene.folder / "activity") if contender.records else (None, None)
    return Turn(
        contender=contender.name,
        round=number,
        start_s=start_s,
        idle_mb=idle_mb,
        after_mb=after_mb,
        cells=cells,
        requests=len(rig.bodies) + sum(measured.seen.sent for measured in cells),
        records=counted[0],
        records_ok=counted[1],
        stop_s=stop_s,
    )


def _scene(rig: Rig, name: str) -> Scene:
    folder = rig.folder / name
    folder.mkdir()
    port, spare = free_ports(2)
    key = "sk-bench-" + secrets.token_hex(16)
    return Scene(folder=folder, port=port, spare_port=spare, upstreams=rig.upstreams, key=key)


def _started(
    contender: Contender, scene: Scene, rig: Rig
) -> AbstractContextManager[Running | None]:
    if contender.command is None:
        return nullcontext()
    # Nothing of the caller's environment: no keys, no proxies, no settings of a peer.
    environ = {
        "PATH": f"{os.environ.get('PATH', '')}:{os.defpath}",
        "HOME": str(scene.folder),
        "LANG": "C.UTF-8",
        "BENCH_CLIENT_KEY": scene.key,
        "BENCH_JOBS_KEY": "sk-bench-" + secrets.token_hex(16),
        "BENCH_MASTER_KEY": "sk-bench-" + secrets.token_hex(16),
        **contender.environ,
    }
    return running(
        contender.command(scene),
        core=rig.cores.gateway,
        log=scene.folder / "log",
        cwd=scene.folder,
        environ=environ,
    )


def _probe(subject: Subject, body_file: Path) -> None:
    """One answered request; RigError that says what came instead."""
    connection = http.client.HTTPConnection("127.0.0.1", subject.port, timeout=60)
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {subject.key}"}
    try:
        connection.request("POST", CHAT, body_file.read_bytes(), headers)
        response = connection.getresponse()
        answer = response.read()
    except (OSError, http.client.HTTPException) as error:
        words = subject.process.last_words() if subject.process is not None else ""
        raise RigError(f"no answer to a first request: {error}: {words}") from error
    finally:
        connection.close()
    if response.status != 200:
        raise RigError(f"a first request got {response.status}: {answer[:300]!r}")


def _cell(subject: Subject, cell: Cell, rig: Rig, say: Callable[[str], None]) -> Measured:
    process = subject.process
    before = process.cpu_s() if process is not None else 0.0
    seen = run_load(
        rig.load,
        rig.bodies[cell.stream],
        port=subject.port,
        path=CHAT,
        headers=[f"Authorization: Bearer {subject.key}"],
        clients=cell.clients,
        stream=cell.stream,
        warm_s=subject.contender.warm_s,
        seconds=rig.seconds,
        core=rig.cores.load,
    )
    cpu_us = (process.cpu_s() - before) * 1e6 if process is not None else None
    rate = f"{seen.chunks_s:,.0f} chunks/s" if cell.stream else f"{seen.rps:,.0f} req/s"
    wrong = f", {seen.bad} wrong answers ({seen.example})" if seen.bad else ""
    say(f"  {cell}: {rate}{wrong}")
    return Measured(
        cell=cell,
        seen=seen,
        cpu_us_per_request=cpu_us / max(1, seen.whole) if cpu_us is not None else None,
        cpu_us_per_chunk=cpu_us / max(1, seen.chunks) if cpu_us and cell.stream else None,
    )


def _count_records(folder: Path) -> tuple[int, int]:
    """Lines in the activity log's files, and those that say "ok"."""
    total = right = 0
    for file in folder.glob("activity.jsonl*"):
        if file.suffix == ".lock":
            continue
        with file.open("rb") as lines:
            for line in lines:
                total += 1
                right += b'"outcome":"ok"' in line
    return total, right
