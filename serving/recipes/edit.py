"""One line of a YAML file changed in place: comments, order and line ends stay as they are."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from common.problems import has_errors
from common.source import read
from serving.errors import Unusable

# Quoted or plain; a `#` begins a comment only after a blank.
_VALUE: Final = (
    r"""(?:[ \t]*(?:"(?:[^"\\\r\n]|\\.)*"|'(?:[^'\r\n]|'')*'|[^\s#](?:[^#\r\n]|(?<=\S)#)*?))?"""
)
_END: Final = r"(?P<end>(?:[ \t]+#[^\r\n]*|[ \t]*))(?=\r?$)"


def with_keys(text: str, wanted: Mapping[str, str], *, after: str) -> str:
    """The text with these top-level keys set, a new one below the key `after`.

    Raises Unusable where more than that would change, as for a value over several lines.
    """
    changed = text
    for key, value in wanted.items():
        changed = _with_key(changed, key, value, after)
    before, now = read(text, "").data, read(changed, "")
    if has_errors(now.problems) or now.data != {**before, **wanted}:
        keys = ", ".join(f"`{key}`" for key in wanted)
        raise Unusable(f"cannot set {keys} in one line each: edit the file by hand")
    return changed


def _with_key(text: str, key: str, value: str, after: str) -> str:
    line = re.compile(rf"^{re.escape(key)}:{_VALUE}{_END}", re.MULTILINE)
    if line.search(text):
        return line.sub(lambda found: f"{key}: {value}{found['end']}", text, count=1)
    above = re.compile(rf"^{re.escape(after)}:[^\r\n]*(?P<end>\r?\n|\Z)", re.MULTILINE)
    return above.sub(lambda found: f"{_ended(found)}{key}: {value}{_end(found)}", text, count=1)


def _ended(found: re.Match[str]) -> str:
    return found[0] if found["end"] else found[0] + "\n"


def _end(found: re.Match[str]) -> str:
    return found["end"] or "\n"


def read_text(path: Path) -> str:
    """The file with its line ends as they are. Raises Unusable."""
    try:
        return path.read_bytes().decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or error
        raise Unusable(f"cannot read {path}: {why}") from error


def write_text(path: Path, text: str) -> None:
    """The whole file or the old one, whenever the machine stops. Raises Unusable."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        mode = path.stat().st_mode & 0o777 if path.exists() else 0o644
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(text.encode("utf-8"))
                file.flush()
                os.fsync(file.fileno())
            Path(name).chmod(mode)
            Path(name).replace(path)
        except BaseException:  # raised again; no draft of the file stays behind
            Path(name).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise Unusable(f"cannot write {path}: {error.strerror or error}") from error
