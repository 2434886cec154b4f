"""The one shape that every check returns: a problem, at a place, with what to do about it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

Severity = Literal["error", "warning"]


@dataclass(frozen=True, slots=True, order=True)
class Place:
    """A place in a file; line and column count from 1, as editors do."""

    file: str
    line: int
    column: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


@dataclass(frozen=True, slots=True)
class Problem:
    """What is wrong at a place. The message names the value and says what to do."""

    place: Place
    severity: Severity
    code: str
    message: str

    def __str__(self) -> str:
        return f"{self.place}: {self.severity}[{self.code}]: {self.message}"


def in_order(problems: Iterable[Problem]) -> tuple[Problem, ...]:
    """Problems as a reader meets them: by place, errors before warnings, without repeats."""
    key = {p: (p.place, p.severity, p.code, p.message) for p in problems}
    return tuple(sorted(key, key=key.__getitem__))


def has_errors(problems: Iterable[Problem]) -> bool:
    """True if any problem is an error: the file must not be served."""
    return any(p.severity == "error" for p in problems)


def render(problems: Iterable[Problem]) -> str:
    """One line a problem, `file:line:column: severity[code]: message`."""
    return "\n".join(str(p) for p in in_order(problems))


def as_data(problems: Iterable[Problem]) -> list[dict[str, Any]]:
    """The same as JSON-ready data, for `--json`."""
    return [
        {
            "file": p.place.file,
            "line": p.place.line,
            "column": p.place.column,
            "severity": p.severity,
            "code": p.code,
            "message": p.message,
        }
        for p in in_order(problems)
    ]
