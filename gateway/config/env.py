"""`os.environ/NAME` in the file: the only way to a secret, and to a host that differs by node.

A variable that is unset or empty is an error that names what needs it: a gap would be filled by
a library's default, and prompts would leave for a public host.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path as FilePath
from typing import Any, Final

from common.problems import Problem
from common.source import Path, Source

PREFIX: Final = "os.environ/"

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_SHELL: Final = re.compile(r"\$\{(?P<braced>[A-Za-z_][^}]*)\}|\A\$(?P<bare>[A-Z_][A-Z0-9_]*)\Z")
_PYTHON: Final = re.compile(r"os\.(environ|getenv)\b|\A(env|environ)/[A-Z_]", re.ASCII)
_LINE: Final = re.compile(r"(?:export\s+)?(?P<name>[A-Za-z_][A-Za-z0-9_]*)=(?P<value>.*)\Z")

# Below these the text is the model's: a template may well say `${x}`.
_FREE_TEXT: Final = ("extra_body", "chat_template", "grammar", "stop")


class BadEnvFile(ValueError):
    """A line of an env file that is no NAME=value; the message has its place."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolved:
    """The file's data with every variable filled in.

    `unset` are the values that are not known: a stand-in of their own is in their place.
    """

    data: Mapping[str, Any]
    variables: Mapping[Path, str]  # where a variable stands -> its name
    unset: frozenset[Path] = frozenset()
    problems: tuple[Problem, ...] = field(default_factory=tuple)


def resolve(source: Source, environ: Mapping[str, str], *, check_env: bool) -> Resolved:
    """Fill in every `os.environ/NAME`; without `check_env` none is read, all are unset."""
    walk = _Walk(source, environ if check_env else None)
    data = walk.value(source.data, ())
    return Resolved(
        data=data,
        variables=walk.variables,
        unset=frozenset(walk.unset),
        problems=tuple(walk.problems),
    )


class _Walk:
    def __init__(self, source: Source, environ: Mapping[str, str] | None) -> None:
        self.source, self.environ = source, environ
        self.variables: dict[Path, str] = {}
        self.unset: set[Path] = set()
        self.problems: list[Problem] = []

    def value(self, value: Any, path: Path) -> Any:
        if isinstance(value, dict):
            return {key: self.value(item, (*path, key)) for key, item in value.items()}
        if isinstance(value, list):
            return [self.value(item, (*path, i)) for i, item in enumerate(value)]
        return self.text(value, path) if isinstance(value, str) else value

    def text(self, text: str, path: Path) -> str:
        if text.startswith(PREFIX):
            return self.variable(text.removeprefix(PREFIX), path)
        free = any(step in _FREE_TEXT for step in path)
        if not free and (shell := _SHELL.search(text)):
            name = re.split(r"[^A-Za-z0-9_]", shell["braced"] or shell["bare"])[0]
            self.note(
                path,
                "shell-variable",
                f"`{shell[0]}` is shell spelling and is not filled in here; write the whole value"
                f" as `{PREFIX}{name}`",
            )
        elif not free and _PYTHON.search(text):
            self.note(
                path,
                "variable-spelling",
                f"a variable is the whole value, spelled `{PREFIX}NAME`",
            )
        return text

    def variable(self, name: str, path: Path) -> str:
        self.variables[path] = name
        if not _NAME.match(name):
            self.note(
                path, "variable-spelling", f"`{name}` is no name of a variable: letters, digits, _"
            )
            return self.stand_in(name, path)
        if self.environ is None:
            return self.stand_in(name, path)
        value = self.environ.get(name)
        if value is None or not value.strip():
            state = "not set" if value is None else "set, but empty"
            self.note(path, "unset-variable", f"the variable {name} is {state}; {self.needs(path)}")
            return self.stand_in(name, path)
        if any(ord(char) < 32 or ord(char) == 127 for char in value.strip()):
            self.note(
                path, "variable-value", f"the value of {name} holds a line break or control code"
            )
            return self.stand_in(name, path)
        return value.strip()

    def stand_in(self, name: str, path: Path) -> str:
        self.unset.add(path)
        return f"${name}"

    def needs(self, path: Path) -> str:
        what = path[-1]
        if path[0] == "model_list" and len(path) > 1:
            return f"{deployment_name(self.source.data, path)} needs it for `{what}`"
        at = path[2] if path[:2] == ("gateway_settings", "client_keys") and len(path) > 2 else None
        if isinstance(at, int):
            client = self.source.data["gateway_settings"]["client_keys"][at]
            name = client.get("name") if isinstance(client, dict) else None
            return f"client '{name or at + 1}' needs it for `{what}`"
        steps = ".".join(str(step) for step in path if isinstance(step, str))
        return f"`{steps}` needs it"

    def note(self, path: Path, code: str, message: str) -> None:
        self.problems.append(Problem(self.source.value(path), "error", code, message))


def deployment_name(data: Mapping[str, Any], path: Path) -> str:
    """How a message names a `model_list` entry: by its group, and by its number if need be."""
    entries, at = data.get("model_list"), path[1]
    if not isinstance(entries, list) or not isinstance(at, int) or at >= len(entries):
        return "this deployment"
    names = [e.get("model_name") if isinstance(e, dict) else None for e in entries]
    if not isinstance(names[at], str):
        return f"deployment {at + 1} of the list"
    same = [i for i, name in enumerate(names) if name == names[at]]
    number = f" (member {same.index(at) + 1} of {len(same)})" if len(same) > 1 else ""
    return f"deployment '{names[at]}'{number}"


def read_env_file(path: str) -> dict[str, str]:
    """NAME=value lines: `#` comments, `export`, quotes. OSError if it cannot be read."""
    text = FilePath(path).read_text(encoding="utf-8-sig")
    return dict(_entries(path, text))


def _entries(path: str, text: str) -> Iterator[tuple[str, str]]:
    for number, line in enumerate(text.splitlines(), 1):
        stripped = line.strip()
        if not stripped or stripped.startswith("#"):
            continue
        match = _LINE.match(stripped)
        if match is None:  # the line itself may hold a secret: only its place is shown
            raise BadEnvFile(f"{path}:{number}:1: this line is no NAME=value")
        yield match["name"], _unquoted(match["value"].strip())


def _unquoted(value: str) -> str:
    if len(value) > 1 and value[0] == value[-1] and value[0] in "'\"":
        return value[1:-1]
    return re.split(r"\s+#", value, maxsplit=1)[0]
