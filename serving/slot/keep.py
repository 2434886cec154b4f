"""Logs of engines: one file a start, `run/logs/RECIPE-TIME.log`, the last ones kept.

The file is there before the engine is, so that nothing an engine said is lost by removing it.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_WORDS: Final = r"(?:api[_-]?key|token|secret|passw(?:or)?d|authorization|credential)s?"
_MASKED: Final = re.compile(
    rf"""(?ix)
    ( \b[\w-]*{_WORDS} ["']? \s* [=:] \s* (?:bearer\s+)? ["']?  # NAME=, "name": , Name: Bearer
    | --[\w-]*{_WORDS} ["']? ,? \s+ ["']? )                      # --api-key
    ( [^\s"',;}}]+ )
    | \b(bearer\s+|sk-|hf_|ghp_|nvapi-)([\w.~+/=-]{{4,}})
    """
)
_STAMPED: Final = re.compile(r"-(\d{8}T\d{12})$")
_NUMBER: Final = re.compile(r"\d+(?:\.\d+)?[.,;)]*")
_TAIL_BYTES: Final = 256 << 10
ROTATE_BYTES: Final = 64 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Logs:
    """The folder of logs, and how many stay."""

    folder: Path
    kept: int

    def begin(self, recipe: str) -> Path:
        """A new, empty log; the oldest ones go. Nobody but this user reads it."""
        self.folder.mkdir(parents=True, exist_ok=True)
        now = time.time_ns() // 1000
        while True:
            path = self.folder / f"{recipe}-{_stamp(now)}.log"
            try:
                os.close(os.open(path, os.O_CREAT | os.O_EXCL, 0o600))
            except FileExistsError:
                now += 1  # two starts in one microsecond
                continue
            self._prune()
            return path

    def newest(self, recipe: str | None = None) -> Path | None:
        """The log of the last start, or of the recipe's last one."""
        names = [path for path in self._all() if recipe is None or _recipe(path) == recipe]
        return names[-1] if names else None

    def _all(self) -> list[Path]:
        """Oldest first."""
        try:
            found = [p for p in self.folder.iterdir() if p.suffix == ".log"]
        except OSError:
            return []
        return sorted(found, key=_age)

    def _prune(self) -> None:
        for path in self._all()[: -self.kept]:
            path.unlink(missing_ok=True)
            path.with_suffix(".log.old").unlink(missing_ok=True)


def rotate(log: Path, most: int = ROTATE_BYTES) -> bool:
    """Where a log has grown above `most`, keep what it holds beside it and empty it.

    The engine goes on writing into the same file: it was opened for appending.
    """
    try:
        if log.stat().st_size <= most:
            return False
        shutil.copyfile(log, log.with_suffix(".log.old"))
        os.truncate(log, 0)
    except OSError:
        return False  # a full disk: the log grows on
    return True


def tail(log: Path | None, lines: int) -> list[str]:
    """The last lines of a log, with what looks like a secret hidden; empty where there is none."""
    if log is None:
        return []
    with contextlib.suppress(OSError), log.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - _TAIL_BYTES))
        text = file.read().decode("utf-8", "replace")
        return [mask(line) for line in list(_lines(text))[-lines:]]
    return []


def size(log: Path) -> int:
    """Its bytes; 0 where it is not there."""
    try:
        return log.stat().st_size
    except OSError:
        return 0


def since(log: Path, at: int) -> tuple[list[str], int]:
    """Whole lines written after byte `at`, and where they end; from its begin if it was emptied."""
    try:
        with log.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(at if at <= size else 0)
            begin = file.tell()
            whole = file.read(_TAIL_BYTES).rpartition(b"\n")[0]
    except OSError:
        return [], 0
    end = begin + len(whole) + 1 if whole else begin
    return [mask(line) for line in _lines(whole.decode("utf-8", "replace"))], end


def mask(line: str) -> str:
    """The line, with the values of key-like words hidden. Counts of tokens stay."""
    return _MASKED.sub(_hidden, line)


def _hidden(match: re.Match[str]) -> str:
    if match[1] is None:
        return f"{match[3]}[hidden]"
    if "token" in match[1].lower() and _NUMBER.fullmatch(match[2]):
        return match[0]  # `max_tokens=512` is no secret, and a tail without it tells nothing
    return f"{match[1]}[hidden]"


def _lines(text: str) -> Iterator[str]:
    """Lines without what a terminal would draw; of a progress bar only its last state."""
    for line in text.split("\n"):
        shown = line.rstrip("\r").rpartition("\r")[2]
        plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown)
        if plain.strip():
            yield plain[:2000]


def _stamp(now_us: int) -> str:
    """UTC to the microsecond; as text it sorts by time."""
    seconds, rest = divmod(now_us, 1_000_000)
    return f"{time.strftime('%Y%m%dT%H%M%S', time.gmtime(seconds))}{rest:06d}"


def _recipe(path: Path) -> str:
    return _STAMPED.sub("", path.stem)


def _age(path: Path) -> str:
    match = _STAMPED.search(path.stem)
    return match[1] if match else ""
