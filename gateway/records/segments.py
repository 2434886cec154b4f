"""The files of one activity log, read in order: PATH.000001, PATH.000002, ..., then PATH itself.

The highest number is the youngest. Lines that are torn (cut by a kill, a full disk or a power
failure) are skipped: no reader trips over them.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator
from datetime import datetime
from itertools import chain
from pathlib import Path
from typing import BinaryIO

import msgspec

from gateway.records.record import Record

_DIGITS = 6


class _Head(msgspec.Struct):
    """What is read of a line where only its time matters."""

    id: str
    at: str


_record_decoder = msgspec.json.Decoder(Record)
_head_decoder = msgspec.json.Decoder(_Head)


def real_path(path: str | Path) -> Path:
    """The file itself, so that a link and its target are one log with one lock."""
    return Path(path).resolve()


def rotated(path: Path) -> list[tuple[int, Path]]:
    """(number, path) of the files rotated away, oldest first."""
    pattern = re.compile(re.escape(path.name) + rf"\.(\d{{{_DIGITS},}})")
    try:
        beside = list(path.parent.iterdir())
    except FileNotFoundError:
        return []
    return sorted((int(m[1]), file) for file in beside if (m := pattern.fullmatch(file.name)))


def rotated_name(path: Path, number: int) -> Path:
    """The name under which `path` is moved aside."""
    return path.with_name(f"{path.name}.{number:0{_DIGITS}d}")


def seconds(at: str) -> float:
    """A record's `at` as seconds since 1970; ValueError where it is no time."""
    return datetime.fromisoformat(at).timestamp()


def line_time(line: bytes) -> float | None:
    """When the request of this line arrived; None for a torn line."""
    try:
        return seconds(_head_decoder.decode(line).at)
    except (msgspec.MsgspecError, UnicodeDecodeError, ValueError):
        return None


def parse(line: bytes) -> Record | None:
    """The record on this line; None for a torn line."""
    try:
        return _record_decoder.decode(line)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None


def first_fresh_offset(path: Path, cutoff: float) -> int | None:
    """Where the first line that arrived at `cutoff` or later starts; None where there is none.

    Lines stand in the order in which requests ended, so that a line behind this one may be
    older by at most the time a request takes.
    """
    offset = 0
    with path.open("rb") as file:
        for line in file:
            time = line_time(line)
            if time is not None and time >= cutoff:
                return offset
            offset += len(line)
    return None


def iter_records(path: str | Path, since: datetime | None = None) -> Iterator[Record]:
    """Every record in the log at `path`, oldest file first, skipping torn lines.

    `since` (with a time zone) leaves out requests that arrived earlier. A rotation while
    reading neither hides a record nor shows one twice: all files are opened before the first
    line is read, the youngest first.
    """
    cutoff = None if since is None else since.timestamp()
    with _open_all(real_path(path)) as files:
        for line in chain.from_iterable(files):
            record = parse(line)
            if record is not None and (cutoff is None or seconds(record.at) >= cutoff):
                yield record


@contextlib.contextmanager
def _open_all(path: Path) -> Iterator[list[BinaryIO]]:
    """The log's files, oldest first."""
    files: list[BinaryIO] = []
    seen: set[tuple[int, int]] = set()
    with contextlib.ExitStack() as stack:
        # The active file first: if it is rotated right now, it shows again under its number,
        # and its inode tells that it is the one we hold.
        _open(path, stack, files, seen)
        for _, name in reversed(rotated(path)):
            _open(name, stack, files, seen)
        yield files[::-1]


def _open(
    path: Path,
    stack: contextlib.ExitStack,
    files: list[BinaryIO],
    seen: set[tuple[int, int]],
) -> None:
    try:
        file = stack.enter_context(path.open("rb"))
    except FileNotFoundError:
        return  # expired, or between two names
    stat = os.fstat(file.fileno())
    if (stat.st_dev, stat.st_ino) not in seen:
        seen.add((stat.st_dev, stat.st_ino))
        files.append(file)
