"""`python -m tests.fuzz scanner` or `file`, with libFuzzer's options after it. Needs `atheris`.

pip install atheris
python -m tests.fuzz scanner -max_total_time=3600
"""

from __future__ import annotations

import sys
from collections.abc import Callable

import atheris  # type: ignore[import-not-found,import-untyped,unused-ignore]

with atheris.instrument_imports(include=["gateway", "common"]):
    from common.problems import has_errors
    from gateway.config.config import Dialect
    from gateway.config.load import load_text
    from gateway.sse import Scanner

_DIALECTS: tuple[Dialect, ...] = ("chat", "completions", "messages", "responses")
_ENVIRON = {"K": "sk-0123456789abcdef", "BASE": "http://127.0.0.1:8000/v1"}


def scanner(data: bytes) -> None:
    """However a stream is cut, the same bytes go out and the same things were seen."""
    if len(data) < 3:
        return
    dialect, cut, body = _DIALECTS[data[0] % 4], data[1], data[2:]
    whole, parts = Scanner(dialect, drop_usage=True), Scanner(dialect, drop_usage=True)
    at = cut % (len(body) + 1)
    out = whole.feed(body) + whole.end()
    joined = parts.feed(body[:at]) + parts.feed(body[at:]) + parts.end()
    seen = [
        (s.content_events, s.finished, s.done, s.error, s.last_usage, s.is_complete())
        for s in (whole, parts)
    ]
    assert seen[0] == seen[1], (body, at, seen)
    assert out == joined or b"\r" in body, (body, at, out, joined)


def file(data: bytes) -> None:
    """Any bytes are a Config, or problems with places in them; never a traceback."""
    loaded = load_text(data, "f.yaml", _ENVIRON)
    assert (loaded.config is None) == has_errors(loaded.problems), data
    lines = data.count(b"\n") + data.count(b"\r") + 2
    assert all(1 <= p.place.line <= lines and p.place.column >= 1 for p in loaded.problems), data


_TARGETS: dict[str, Callable[[bytes], None]] = {"scanner": scanner, "file": file}
if __name__ == "__main__":
    target = _TARGETS[sys.argv.pop(1)]
    atheris.Setup(sys.argv, target)
    atheris.Fuzz()
