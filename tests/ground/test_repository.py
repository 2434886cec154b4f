"""What is committed: no machine's paths, no registry's address, no key, nothing large."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.ground import repository

BINARY = (".gguf", ".png", ".gz", ".http", ".body", ".timing")
MAX_BYTES = 3 * 1024 * 1024

# Written in two parts, so that this file does not find itself.
NEVER = {
    "a path of one machine": re.compile("/" + r"(?:work|home/\w+|root)/"),
    "a package registry": re.compile(
        "index" + r"-url\b(?! *>)|extra" + r"-index|https?://[\w.]*(?:py" + r"pi|npm" + r"js)\b"
    ),
    "a key": re.compile(r"\bsk-(?:proj-|ant-)?[A-Za-z0-9_-]{32,}"),
    "a private address": re.compile(r"\b(?:192\.168|172\.(?:1[6-9]|2\d|3[01]))\.\d+\.\d+\b"),
}
# What the Makefile needs to say to make locks without addresses; where one kit's container, not
# this machine, has its weights.
ALLOWED = re.compile("--no-emit-index" + "-url|/" + r"root/\.cache/huggingface\b")


def texts() -> list[Path]:
    return [path for path in repository.files() if not path.name.endswith(BINARY)]


@pytest.mark.parametrize("what", NEVER)
def test_no_committed_file_holds(what: str) -> None:
    found = []
    for path in texts():
        if "tests/data/" in path.as_posix():
            continue  # bytes of real engines, as they were captured
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            if NEVER[what].search(ALLOWED.sub("", line)):
                found.append(f"{repository.name(path)}:{number}: {line.strip()[:100]}")

    assert not found


def test_nothing_large_is_committed() -> None:
    assert not [repository.name(p) for p in repository.files() if p.stat().st_size > MAX_BYTES]
