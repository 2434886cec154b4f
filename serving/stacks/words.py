"""The words of a command, and the flags among them, as the program in the container sees them."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

_SHELLS: Final = frozenset({"sh", "bash", "ash", "dash"})
_FLAG: Final = re.compile(r"-{1,2}[A-Za-z][\w.-]*")
_SIZES: Final = {"k": 1000, "m": 10**6, "g": 10**9, "K": 2**10, "M": 2**20, "G": 2**30}


@dataclass(frozen=True, slots=True, kw_only=True)
class Words:
    """A command: its words before the first flag, and each flag with its values."""

    plain: tuple[str, ...] = ()
    flags: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # `--max-len`: dashes only

    def first(self, *names: str) -> str | None:
        """The value of the first of these flags that is there; "" for one without a value."""
        found = next((self.flags[name] for name in names if name in self.flags), None)
        return None if found is None else (found[0] if found else "")

    def all(self, *names: str) -> tuple[str, ...] | None:
        """Every value of the first of these flags that is there."""
        return next((self.flags[name] for name in names if name in self.flags), None)

    def has(self, *names: str) -> bool:
        return any(name in self.flags for name in names)

    def number(self, *names: str) -> int | None:
        """A whole number; `128k` is 128,000 and `128K` 131,072, as engines read them."""
        return whole(self.first(*names))


def whole(text: str | None) -> int | None:
    """A whole number out of a flag or a variable; None for anything else."""
    found = re.fullmatch(r"(\d+)([kKmMgG]?)", text or "")
    return int(found[1]) * _SIZES.get(found[2], 1) if found else None


def of_service(data: Mapping[str, Any]) -> Words:
    """The words that a service's `entrypoint` and `command` make together."""
    given = [*_split(data.get("entrypoint")), *_split(data.get("command"))]
    return of_words(list(_out_of_shells(given)))


def of_words(given: list[str]) -> Words:
    """Words sorted into plain ones and flags; a flag holds all that follows up to the next."""
    plain: list[str] = []
    flags: dict[str, tuple[str, ...]] = {}
    open_flag = ""
    for word in given:
        if _FLAG.fullmatch(word.partition("=")[0]):
            name, equals, value = word.partition("=")
            open_flag = name.replace("_", "-")
            flags[open_flag] = (value,) if equals else ()
        elif open_flag:
            flags[open_flag] = (*flags[open_flag], word)
        else:
            plain.append(word)
    return Words(plain=tuple(plain), flags=flags)


def _split(given: Any) -> list[str]:
    if isinstance(given, list):
        return [str(word) for word in given]
    if not isinstance(given, str):
        return []
    # A backslash at a line's end belongs to a shell; compose hands it on as a line break.
    text = given.replace("\\\n", " ")
    try:
        return shlex.split(text)
    except ValueError:  # a quote that is not closed: compose would refuse it too
        return text.split()


def _out_of_shells(words: list[str]) -> Iterator[str]:
    """`sh -c "exec vllm serve ..."` says the same words, one level down."""
    for index, word in enumerate(words):
        before = words[index - 1] if index else ""
        shell = words[index - 2].rpartition("/")[2] if index > 1 else ""
        if before in ("-c", "-lc", "-ec") and shell in _SHELLS:
            yield from _split(word)
        elif not (word in ("-c", "-lc", "-ec") and before.rpartition("/")[2] in _SHELLS):
            yield word
