"""Compose's variables: `$NAME`, `${NAME}`, `${NAME:-default}` and their kin, as compose fills them.

The rules are those of the Compose specification: `:` takes an empty variable for an unset one,
`-` gives a default, `?` refuses, `+` gives a value where there is one, `$$` is a dollar sign.
Defaults may hold variables themselves.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_OPERATOR: Final = re.compile(r":?[-?+]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Filled:
    """A text with its variables filled in, and what could not be."""

    text: str
    used: tuple[str, ...] = ()  # variables whose value, or lack of one, is in the text
    unset: tuple[str, ...] = ()  # without a value or a default: compose puts nothing there
    refused: tuple[tuple[str, str], ...] = ()  # `${NAME:?why}` without a value: compose stops
    bad: str | None = None  # what compose would not read at all


def fill(text: str, variables: Mapping[str, str]) -> Filled:
    """`text` as compose would hand it on."""
    walk = _Walk(variables)
    try:
        filled = walk.fill(text)
    except _Bad as bad:
        return Filled(text=text, bad=str(bad))
    return Filled(
        text=filled,
        used=tuple(walk.used),
        unset=tuple(walk.unset),
        refused=tuple(walk.refused),
    )


class _Bad(Exception):
    """A dollar sign that begins nothing; the message is the piece of text."""


class _Walk:
    def __init__(self, variables: Mapping[str, str]) -> None:
        self.variables = variables
        self.used: list[str] = []
        self.unset: list[str] = []
        self.refused: list[tuple[str, str]] = []

    def fill(self, text: str) -> str:
        parts: list[str] = []
        at = 0
        while (dollar := text.find("$", at)) >= 0:
            parts.append(text[at:dollar])
            value, at = self.dollar(text, dollar)
            parts.append(value)
        return "".join(parts) + text[at:]

    def dollar(self, text: str, at: int) -> tuple[str, int]:
        """The value of what begins at this dollar sign, and where it ends."""
        if text.startswith("$$", at):
            return "$", at + 2
        if name := _NAME.match(text, at + 1):
            return self.value(name[0]), name.end()
        if text.startswith("${", at) and (end := _closing(text, at + 2)) is not None:
            return self.braces(text[at + 2 : end]), end + 1
        raise _Bad(text[at : at + 20])

    def braces(self, inner: str) -> str:
        name = _NAME.match(inner)
        rest = inner[name.end() :] if name else inner
        if name is None or (rest and not _OPERATOR.match(rest)):
            raise _Bad("${" + inner + "}")
        if not rest:
            return self.value(name[0])
        colon, kind, word = rest[0] == ":", rest.lstrip(":")[0], rest.lstrip(":")[1:]
        given = self.variables.get(name[0])
        there = bool(given) if colon else given is not None
        self.used.append(name[0])
        if kind == "+":
            return self.fill(word) if there else ""
        if there:
            return given or ""
        if kind == "-":
            return self.fill(word)
        self.refused.append((name[0], word))
        return ""

    def value(self, name: str) -> str:
        self.used.append(name)
        if name not in self.variables:
            self.unset.append(name)
        return self.variables.get(name, "")


def _closing(text: str, at: int) -> int | None:
    """Where the brace that is open at `at` closes; defaults may hold braces of their own."""
    depth = 0
    for index in range(at, len(text)):
        if text.startswith("${", index):
            depth += 1
        elif text[index] == "}":
            if depth == 0:
                return index
            depth -= 1
    return None
