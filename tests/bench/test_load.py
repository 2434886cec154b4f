"""The benchmark's own tools measure what they say they measure."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from bench.load import CHUNKS, Seen, body, run_load
from bench.rig import RigError, build, free_ports, running, wait_until_ready


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("built")
    build("load", folder)
    build("upstream", folder)
    return folder


@contextmanager
def engine(built: Path, folder: Path, *, chunks: int = CHUNKS) -> Iterator[int]:
    """The stand-in engine on a port of its own."""
    [port] = free_ports(1)
    core = min(os.sched_getaffinity(0))
    command = [str(built / "upstream"), "-n", str(chunks), str(port)]
    log = folder / "log"
    with running(command, core=core, log=log, cwd=folder, environ={}) as process:
        wait_until_ready(process, port, "/health", 10.0)
        yield port


def ask(built: Path, folder: Path, port: int, *, stream: bool) -> Seen:
    """A short run of eight clients."""
    body_file = folder / "body.json"
    body_file.write_bytes(body("any", stream=stream))
    return run_load(
        built / "load",
        body_file,
        port=port,
        path="/v1/chat/completions",
        headers=["Authorization: Bearer sk-any"],
        clients=8,
        stream=stream,
        warm_s=0.2,
        seconds=0.8,
    )


def test_plain_answers_are_all_counted_and_right(built: Path, tmp_path: Path) -> None:
    with engine(built, tmp_path) as port:
        seen = ask(built, tmp_path, port, stream=False)

    assert seen.ok > 0
    assert seen.bad == 0, seen.example
    assert seen.sent == seen.whole
    assert seen.in_flight == 0
    assert seen.p50_ms is not None


def test_streams_are_whole_and_in_order(built: Path, tmp_path: Path) -> None:
    with engine(built, tmp_path) as port:
        seen = ask(built, tmp_path, port, stream=True)

    assert seen.ok > 0
    assert seen.bad == 0, seen.example
    assert seen.chunks == CHUNKS * seen.whole
    assert seen.no_usage == 0
    assert seen.ttft_p50_ms is not None


def test_a_stream_that_misses_an_event_is_a_wrong_answer(built: Path, tmp_path: Path) -> None:
    with engine(built, tmp_path, chunks=CHUNKS - 1) as port:
        seen = ask(built, tmp_path, port, stream=True)

    assert seen.ok == 0
    assert seen.bad == seen.whole > 0


def test_a_port_where_nobody_listens_gives_no_figure(built: Path, tmp_path: Path) -> None:
    [port] = free_ports(1)

    seen = ask(built, tmp_path, port, stream=False)

    assert seen.ok == 0
    assert seen.rps == 0
    assert seen.bad > 0


def test_a_missing_compiler_is_said_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(RigError, match="no C compiler") as said:
        build("load", tmp_path)

    assert "\n" not in str(said.value)


def test_what_is_started_is_stopped_with_its_children(tmp_path: Path) -> None:
    core = min(os.sched_getaffinity(0))
    command = ["/bin/sh", "-c", "sleep 60 & echo $!; wait"]
    log = tmp_path / "log"

    with running(command, core=core, log=log, cwd=tmp_path, environ={}) as process:
        while not log.read_text().strip():
            assert process.process.poll() is None
        child = int(log.read_text())

    assert process.process.returncode is not None
    ends = time.monotonic() + 5  # a killed process is gone soon, not at once
    while _is_alive(child):
        assert time.monotonic() < ends


def _is_alive(pid: int) -> bool:
    """True unless it is gone or only waits for its parent to notice."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False
