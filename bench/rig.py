"""Processes under measurement: built, started on one core, watched in /proc, stopped by pid."""

from __future__ import annotations

import contextlib
import http.client
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BUILT = ROOT / ".bench"  # what the benchmark builds and installs; ignored by git

_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE_MB = os.sysconf("SC_PAGE_SIZE") / 1e6


class RigError(Exception):
    """The measurement cannot be made. The message says why, in one line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cores:
    """The gateway under test has one core to itself; what loads and answers it has the other."""

    gateway: int
    load: int


def pick_cores() -> Cores:
    """The first two cores this process may use; RigError where there is only one."""
    usable = sorted(os.sched_getaffinity(0))
    if len(usable) < 2:
        raise RigError("the comparison needs two cores, and this process may use only one")
    return Cores(gateway=usable[0], load=usable[1])


def build(name: str, into: Path = BUILT) -> Path:
    """The compiled bench/NAME.c, built anew where the source is younger."""
    source, program = Path(__file__).with_name(f"{name}.c"), into / name
    if program.exists() and program.stat().st_mtime > source.stat().st_mtime:
        return program
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        raise RigError("no C compiler: install gcc (the load generator is written in C)")
    into.mkdir(parents=True, exist_ok=True)
    command = [compiler, "-O2", "-Wall", "-Wextra", "-o", str(program), str(source)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RigError(f"{source.name} did not compile: {done.stderr.strip()[:300]}")
    return program


def free_ports(count: int) -> tuple[int, ...]:
    """Loopback ports that nobody listens on at this moment."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for s in sockets:
            s.bind(("127.0.0.1", 0))
        return tuple(int(s.getsockname()[1]) for s in sockets)


def _descendants(pid: int) -> list[int]:
    found = [pid]
    for known in found:  # grows while it is walked
        with contextlib.suppress(OSError):
            for task in Path(f"/proc/{known}/task").iterdir():
                found += map(int, (task / "children").read_text().split())
    return found


def _stat(pid: int) -> list[str]:
    """Fields of /proc/PID/stat after the command's name, which may hold spaces."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


@dataclass(frozen=True, slots=True)
class Running:
    """A started process and its children."""

    process: subprocess.Popen[bytes]
    log: Path

    def cpu_s(self) -> float:
        """CPU seconds used so far by the process and the children it still has."""
        ticks = 0
        for pid in _descendants(self.process.pid):
            with contextlib.suppress(OSError):
                fields = _stat(pid)
                ticks += int(fields[11]) + int(fields[12])  # utime, stime
        return ticks / _TICKS

    def rss_mb(self) -> float:
        """Resident memory of the process and its children, shared pages counted in each."""
        pages = 0
        for pid in _descendants(self.process.pid):
            with contextlib.suppress(OSError):
                pages += int(_stat(pid)[21])
        return pages * _PAGE_MB

    def last_words(self) -> str:
        """The end of what it printed, for an error message."""
        lines = self.log.read_text(errors="replace").strip().splitlines()
        return " | ".join(lines[-3:])[-600:] or "(it printed nothing)"


@contextlib.contextmanager
def running(
    command: Sequence[str], *, core: int, log: Path, cwd: Path, environ: Mapping[str, str]
) -> Iterator[Running]:
    """A process on one core, in a process group of its own; stopped with all its children."""
    with log.open("wb") as out:
        process = subprocess.Popen(
            command,
            cwd=cwd,
            env=environ,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=lambda: os.sched_setaffinity(0, {core}),
        )
    try:
        yield Running(process, log)
    finally:
        _stop(process)


def _stop(process: subprocess.Popen[bytes], patience_s: float = 15.0) -> None:
    process.terminate()
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(patience_s)
    # What ignored the request, or was left behind by a parent that obeyed it.
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def wait_until_ready(
    target: Running, port: int, path: str | None, patience_s: float = 120.0
) -> float:
    """Seconds until GET `path` answers 200 (None: until "/" answers anything at all).

    RigError with the program's last words if that never comes.
    """
    began = time.monotonic()
    while time.monotonic() - began < patience_s:
        if target.process.poll() is not None:
            raise RigError(f"it ended with {target.process.returncode}: {target.last_words()}")
        status = get_status(port, path or "/")
        if status == 200 or (path is None and status is not None):
            return time.monotonic() - began
        time.sleep(0.02)
    raise RigError(f"not ready after {patience_s:.0f} s: {target.last_words()}")


def get_status(port: int, path: str) -> int | None:
    """Status of GET `path` on a loopback port; None where nobody answers."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request("GET", path)
        return connection.getresponse().status
    except (OSError, http.client.HTTPException):
        return None
    finally:
        connection.close()
