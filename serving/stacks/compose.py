"""One compose file as its services, with variables filled in and the place of every value.

A file is read alone: what `extends`, `include` or a second `-f` would add is not seen. Nothing is
looked up beside it but its `env_file`s, or a template of the same name with `.example` at its end.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path as FilePath
from typing import Any, Final

from common.problems import Place, Problem, in_order
from common.source import Path, Source, read_file
from serving.stacks.codes import problem
from serving.stacks.interpolate import Filled, fill

TEMPLATE: Final = ".example"
_SHOWN: Final = 80  # longer texts are commands: their variable says enough
_NO_DOLLAR: Final = re.compile(r"(?<![$\w])\{[A-Za-z_]\w*(?::?[-?+][^{}]*)?\}")
# Where `{NAME}` has no other meaning: in a command it may be JSON or a template.
_LITERAL_BRACES: Final = frozenset({"devices", "ports", "image", "volumes", "shm_size"})


@dataclass(frozen=True, slots=True)
class Value:
    """One variable of a container; `value` is None where compose takes the shell's."""

    value: str | None
    place: Place
    raw: str  # as it is written, before variables are filled in
    from_file: bool = False  # out of an env_file, not written in the compose file


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """One service; `data` is its mapping with variables filled in."""

    name: str
    source: Source
    data: Mapping[str, Any]
    environment: Mapping[str, Value] = field(default_factory=dict)

    @property
    def file(self) -> str:
        return self.source.file

    @property
    def path(self) -> Path:
        return ("services", self.name)

    def place(self, *path: str | int) -> Place:
        """Where a value of this service stands; the nearest above it if it is not there."""
        return self.source.place((*self.path, *path))

    def problem(self, code: str, message: str, *path: str | int) -> Problem:
        """A problem of this service, whose name begins the message."""
        return problem(self.place(*path), code, f"service '{self.name}': {message}")

    def env(self, name: str) -> str | None:
        """The value of a variable inside the container, where it is known."""
        found = self.environment.get(name)
        return found.value if found else None

    @property
    def on_demand(self) -> bool:
        """True if a profile keeps it from starting with the others."""
        return bool(self.data.get("profiles"))

    @property
    def slot(self) -> str | None:
        """`x-slot`: services of one slot never run together, whatever file they are in."""
        name = self.data.get("x-slot")
        return str(name) if name else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Stack:
    """One compose file: what runs together when it is started."""

    source: Source
    services: tuple[Service, ...] = ()
    problems: tuple[Problem, ...] = ()
    production: bool = False  # `x-production: true`: every image by its digest


def read_stack(path: str, variables: Mapping[str, str]) -> Stack:
    """The compose file at `path`; what cannot be read is among its problems."""
    source = read_file(path)
    if source.problems:
        return Stack(source=source, problems=source.problems)
    return stack(source, variables)


def stack(source: Source, variables: Mapping[str, str]) -> Stack:
    """A source as a stack; only its env_files are read besides."""
    named = source.data.get("services")
    if not isinstance(named, Mapping) or not named:
        said = "there is no `services:` mapping: this is no compose file of today"
        return Stack(source=source, problems=(problem(source.place(()), "not-compose", said),))
    found: list[Problem] = []
    services: list[Service] = []
    for name, given in named.items():
        path: Path = ("services", name)
        if not isinstance(given, Mapping):
            said = f"service '{name}' must be a mapping"
            found.append(problem(source.place(path), "not-compose", said))
            continue
        data = _filled(given, path, source, variables, found)
        environment = _environment(name, data, given, source, variables, found)
        services.append(Service(name=name, source=source, data=data, environment=environment))
    return Stack(
        source=source,
        services=tuple(services),
        problems=in_order(found),
        production=source.data.get("x-production") is True,
    )


def _filled(
    data: Any, path: Path, source: Source, variables: Mapping[str, str], found: list[Problem]
) -> Any:
    if isinstance(data, Mapping):
        return {k: _filled(v, (*path, k), source, variables, found) for k, v in data.items()}
    if isinstance(data, list):
        return [_filled(v, (*path, i), source, variables, found) for i, v in enumerate(data)]
    if not isinstance(data, str):
        return data
    filled = fill(data, variables)
    found += _faults(data, filled, path, source)
    return filled.text


def _faults(text: str, filled: Filled, path: Path, source: Source) -> Iterator[Problem]:
    at = source.value(path)
    if filled.bad is not None:
        said = f"compose cannot read `{filled.bad}`: write ${{NAME}}, or $$ for a dollar sign"
        yield problem(at, "variable-syntax", said)
    for name in filled.unset:
        said = f"the variable {name} is not set and has no default"
        if len(text) < _SHOWN:
            said += f": `{text}` becomes `{filled.text}`"
        yield problem(at, "unset-variable", said)
    for name, why in filled.refused:
        said = f"the variable {name} must be set" + (f": {why}" if why else "")
        yield problem(at, "required-variable", said + "; compose refuses to start")
    braces = _NO_DOLLAR.search(text)
    if braces and _LITERAL_BRACES.intersection(path):
        said = (
            f"`{text}` has braces without a dollar sign, so it stays as it is: write ${braces[0]}"
        )
        yield problem(at, "missing-dollar", said)


def _environment(
    name: str,
    data: Mapping[str, Any],
    raw: Mapping[str, Any],
    source: Source,
    variables: Mapping[str, str],
    found: list[Problem],
) -> dict[str, Value]:
    """The container's variables: env_file first, `environment` over it, as compose does."""
    path: Path = ("services", name)
    values = _env_files(data.get("env_file"), (*path, "env_file"), source, found)
    given = data.get("environment")
    if isinstance(given, Mapping):
        for key, value in given.items():
            at = source.place((*path, "environment", key))
            text = variables.get(key) if value is None else _text(value)
            values[key] = Value(text, at, _text(raw["environment"][key]))
    for index, item in enumerate(given if isinstance(given, list) else ()):
        key, equals, text = _text(item).partition("=")
        at = source.value((*path, "environment", index))
        written = _text(raw["environment"][index]).partition("=")[2]
        values[key] = Value(text if equals else variables.get(key), at, written)
    return values


def _env_files(given: Any, path: Path, source: Source, found: list[Problem]) -> dict[str, Value]:
    items = given if isinstance(given, list) else [given] if given else []
    values: dict[str, Value] = {}
    for index, item in enumerate(items):
        name = _text(item.get("path")) if isinstance(item, Mapping) else _text(item)
        required = not (isinstance(item, Mapping) and item.get("required") is False)
        at = source.value((*path, index) if isinstance(given, list) else path)
        file = FilePath(source.file).parent / name
        try:
            text = _first_text(file, file.with_name(file.name + TEMPLATE))
        except (OSError, ValueError):
            if required:
                said = f"there is no env file {name} beside it, and no {name}{TEMPLATE}"
                found.append(problem(at, "env-file", said + ": compose refuses to start"))
            continue
        values |= {k: Value(v, at, v, from_file=True) for k, v in env_lines(text).items()}
    return values


def _first_text(*files: FilePath) -> str:
    there = next((file for file in files if file.is_file()), files[0])
    return there.read_text(encoding="utf-8")


def env_lines(text: str) -> dict[str, str]:
    """NAME=value lines; comments, `export` and quotes as compose takes them."""
    values: dict[str, str] = {}
    for line in text.splitlines():
        name, equals, value = line.strip().removeprefix("export ").partition("=")
        if not equals or name.startswith("#"):
            continue
        value = value.strip()
        quoted = len(value) > 1 and value[0] == value[-1] and value[0] in "'\""
        values[name.strip()] = value[1:-1] if quoted else re.sub(r"\s+#.*$", "", value)
    return values


def env_file(path: str) -> dict[str, str]:
    """The variables of an env file. Raises OSError, and ValueError for what is no UTF-8."""
    return env_lines(FilePath(path).read_text(encoding="utf-8"))


def own_env_file(compose: str) -> str | None:
    """The env file that belongs to a compose file: NAME.env, .env, or the template of either."""
    file = FilePath(compose)
    folder, own = file.parent, f"{file.stem}.env"
    names = (own, ".env", own + TEMPLATE, ".env" + TEMPLATE)
    return next((os.fspath(folder / n) for n in names if (folder / n).is_file()), None)


def _text(value: Any) -> str:
    if value is None:
        return ""
    return str(value).lower() if isinstance(value, bool) else str(value)
