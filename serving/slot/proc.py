"""What `/proc` says: who runs, since when, whose child, what it was marked with, who holds a port.

Reads and nothing else. A process may end between two looks: whatever cannot be read is gone.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_PROC: Final = Path("/proc")
_LISTENS: Final = "0A"  # the state TCP_LISTEN in /proc/net/tcp


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """One process that runs (a zombie does not)."""

    pid: int
    group: int
    session: int
    started: int  # clock ticks since boot: with the pid, no other process of this boot has both


def boot_id() -> str:
    """Which boot of the machine this is: pids and start times begin anew with each."""
    return (_PROC / "sys/kernel/random/boot_id").read_text().strip()


def process(pid: int) -> Process | None:
    """The process with this id; None where none runs."""
    try:
        text = (_PROC / str(pid) / "stat").read_text()
    except OSError:
        return None
    fields = text.rpartition(")")[2].split()  # the name before it may hold spaces and brackets
    if fields[0] in "ZX":
        return None
    return Process(pid=pid, group=int(fields[2]), session=int(fields[3]), started=int(fields[19]))


def processes() -> Iterator[Process]:
    """All that run."""
    for entry in _PROC.iterdir():
        if entry.name.isdigit() and (found := process(int(entry.name))):
            yield found


def variable(pid: int, name: str) -> str | None:
    """A variable that the process was started with; None where it has none or is not ours to read.

    Children inherit it, also those that left their parent's group and session.
    """
    prefix = f"{name}=".encode()
    with contextlib.suppress(OSError):
        for pair in (_PROC / str(pid) / "environ").read_bytes().split(b"\0"):
            if pair.startswith(prefix):
                return os.fsdecode(pair[len(prefix) :])
    return None


def title(pid: int) -> str:
    """The program's name, for a person. Not its arguments: they may hold a key."""
    try:
        return (_PROC / str(pid) / "comm").read_text().strip()
    except OSError:
        return "?"


def listens(port: int) -> bool:
    """Whether anybody on this machine listens on the port."""
    return bool(_sockets(port))


def port_holder(port: int) -> int | None:
    """The id of a process that listens on `port`; None: nobody, or another user's."""
    wanted = {f"socket:[{inode}]" for inode in _sockets(port)}
    if not wanted:
        return None
    for each in processes():
        with contextlib.suppress(OSError):
            for handle in (_PROC / str(each.pid) / "fd").iterdir():
                with contextlib.suppress(OSError):
                    if str(handle.readlink()) in wanted:
                        return each.pid
    return None


def _sockets(port: int) -> set[str]:
    """The inodes of the sockets that listen on the port, over IPv4 and IPv6."""
    found = set()
    for table in ("tcp", "tcp6"):
        try:
            lines = (_PROC / "net" / table).read_text().splitlines()[1:]
        except OSError:
            continue  # a kernel without IPv6
        for line in lines:
            fields = line.split()
            if fields[3] == _LISTENS and int(fields[1].rpartition(":")[2], 16) == port:
                found.add(fields[9])
    return found
