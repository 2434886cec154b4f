"""YAML as plain data, with the line and column of every key and value.

`read` never raises: what cannot be read is a Problem at a place, like any other. Keys written
twice are problems too (YAML would keep the last one), and so are keys that YAML reads as
something else than text, such as `on`.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path as FilePath
from typing import Any, Final

import yaml

from common.problems import Place, Problem, in_order

Path = tuple[str | int, ...]

# Anchors let a few lines stand for millions of values; no real file comes near this.
MAX_VALUES: Final = 100_000

_UNREADABLE: Final = (ValueError, KeyError, IndexError, OverflowError, RecursionError)
_NOT_TEXT: Final = ("null", "bool", "int", "float")


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """One file as data. A path is the way to a value: keys, and indexes into lists from 0."""

    file: str
    data: Mapping[str, Any] = field(default_factory=dict)  # empty where the file cannot be read
    problems: tuple[Problem, ...] = ()
    keys: Mapping[Path, Place] = field(default_factory=dict)
    values: Mapping[Path, Place] = field(default_factory=dict)
    texts: Mapping[Path, str] = field(default_factory=dict)  # scalars as they are written

    def place(self, path: Path) -> Place:
        """Where a person should look: the key of a setting, the value of a list's item."""
        return self._nearest(path, self.keys, self.values)

    def value(self, path: Path) -> Place:
        """Where the value at `path` begins; the nearest place above it if there is none."""
        return self._nearest(path, self.values, self.keys)

    def _nearest(self, path: Path, *known: Mapping[Path, Place]) -> Place:
        steps = [path[:length] for length in range(len(path), -1, -1)]
        found = (places[step] for step in steps for places in known if step in places)
        return next(found, Place(self.file, 1, 1))


def read_file(path: str) -> Source:
    """The file at `path`; one that cannot be opened is a problem at its first line."""
    try:
        data = FilePath(path).read_bytes()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        problem = Problem(Place(path, 1, 1), "error", "unreadable", f"cannot read it: {reason}")
        return Source(file=path, problems=(problem,))
    return read(data, path)


def read(text: bytes | str, file: str) -> Source:
    """Parse `text` as one YAML document that is a mapping; `file` is its name in every place."""
    given = text if isinstance(text, str) else text.decode("utf-8", "replace")
    walk = _Walk(file, given.removeprefix("\ufeff"))
    try:
        if isinstance(text, bytes):
            text.decode("utf-8")
        root = yaml.compose(walk.text, Loader=yaml.SafeLoader)
        data = walk.root(root)
    except UnicodeDecodeError:
        walk.note(walk.text.find("\ufffd"), "yaml", "this byte is not UTF-8: save it as UTF-8")
    except yaml.reader.ReaderError as error:
        code = error.character if isinstance(error.character, int) else ord(error.character)
        walk.note(error.position, "yaml", f"the character U+{code:04X} is not allowed in YAML")
    except yaml.MarkedYAMLError as error:
        mark, began = error.problem_mark or error.context_mark, error.context_mark
        said = ", ".join(part for part in (error.context, error.problem) if part)
        if mark and began and walk.at(began.index).line < walk.at(mark.index).line:
            said += f" (it begins at line {walk.at(began.index).line})"
        walk.note(mark.index if mark else 0, "yaml", f"this is not YAML: {said}")
    except _UNREADABLE as error:
        deep = isinstance(error, RecursionError)
        walk.note(0, "yaml", "nested too deep to read" if deep else f"this is not YAML: {error}")
    else:
        return walk.source(data)
    return Source(file=file, problems=tuple(walk.problems))


class _Walk:
    """One walk over the nodes, which notes places and problems on its way."""

    def __init__(self, file: str, text: str) -> None:
        self.file, self.text = file, text
        # As editors count: LF, CRLF and CR end a line, nothing else does.
        self.starts = [0, *(end.end() for end in re.finditer(r"\r\n|\r|\n", text))]
        self.problems: list[Problem] = []
        self.keys: dict[Path, Place] = {}
        self.values: dict[Path, Place] = {}
        self.texts: dict[Path, str] = {}
        self._yaml = yaml.constructor.SafeConstructor()
        self._above: set[int] = set()  # the nodes around this one: an alias to one is a loop

    def at(self, index: int) -> Place:
        line = bisect_right(self.starts, index)
        return Place(self.file, line, index - self.starts[line - 1] + 1)

    def note(self, at: int | yaml.Node, code: str, message: str) -> None:
        index = at.start_mark.index if isinstance(at, yaml.Node) else at
        self.problems.append(Problem(self.at(index), "error", code, message))

    def source(self, data: dict[str, Any]) -> Source:
        found = in_order(self.problems)
        return Source(
            file=self.file,
            data=data,
            problems=found,
            keys=self.keys,
            values=self.values,
            texts=self.texts,
        )

    def root(self, node: yaml.Node | None) -> dict[str, Any]:
        if node is None:
            self.note(0, "empty-file", "the file is empty")
        elif not isinstance(node, yaml.MappingNode):
            self.note(node, "not-a-mapping", "the file must be `key: value` lines, a mapping")
        else:
            return dict(self.build(node, ()))
        return {}

    def build(self, node: yaml.Node, path: Path) -> Any:
        self.values[path] = self.at(node.start_mark.index)
        if isinstance(node, yaml.ScalarNode):
            self.texts[path] = node.value
            return self.scalar(node)
        if id(node) in self._above:
            self.note(node, "yaml", "this anchor contains itself")
            return None
        if len(self.values) > MAX_VALUES:
            raise ValueError(f"anchors expand to more than {MAX_VALUES} values")
        self._above.add(id(node))
        if isinstance(node, yaml.MappingNode):
            data: Any = self.mapping(node, path)
        else:
            self.plain_tag(node, "seq")
            data = [self.build(item, (*path, i)) for i, item in enumerate(node.value)]
        self._above.discard(id(node))
        return data

    def mapping(self, node: yaml.MappingNode, path: Path) -> dict[str, Any]:
        self.plain_tag(node, "map")
        first: dict[str, int] = {}
        for key_node, _ in node.value:
            key, line = str(key_node.value), self.at(key_node.start_mark.index).line
            if key in first and isinstance(key_node, yaml.ScalarNode):
                said = f"`{key}` is here twice, first at line {first[key]}: YAML keeps only one"
                self.note(key_node, "duplicate-key", said)
            first.setdefault(key, line)
        self._yaml.flatten_mapping(node)  # puts what `<<` brings in first: own keys win
        data: dict[str, Any] = {}
        for key_node, value_node in node.value:
            key = self.key(key_node)
            self.keys[(*path, key)] = self.at(key_node.start_mark.index)
            data[key] = self.build(value_node, (*path, key))
        return data

    def key(self, node: yaml.Node) -> str:
        kind = node.tag.rpartition(":")[2]
        if not isinstance(node, yaml.ScalarNode):
            self.note(node, "key-type", "a key must be text, not a list or a mapping")
        elif kind in ("bool", "null"):
            read_as = {True: "true", False: "false"}.get(self.scalar(node), "null")
            self.note(node, "key-type", f"YAML reads the key `{node.value}` as {read_as}: quote it")
        return str(node.value)

    def scalar(self, node: yaml.ScalarNode) -> Any:
        kind = node.tag.rpartition(":")[2]
        if kind not in _NOT_TEXT:
            if kind not in ("timestamp", "value"):  # a date is text here: no setting takes one
                self.plain_tag(node, "str")
            return node.value
        if ":" in node.value:  # YAML 1.1 counts `12:30` in sixties: 750
            self.note(node, "yaml", f"YAML reads `{node.value}` as a number: quote it")
            return node.value
        try:
            return self._yaml.construct_object(node)
        except (*_UNREADABLE, yaml.YAMLError):
            self.note(node, "yaml", f"`{node.value}` cannot be read as {kind}")
            return node.value

    def plain_tag(self, node: yaml.Node, kind: str) -> None:
        if node.tag not in (f"tag:yaml.org,2002:{kind}", "!"):
            tag = node.tag.replace("tag:yaml.org,2002:", "!!")
            self.note(node, "yaml", f"the tag `{tag}` has no meaning here: leave it out")
