"""Strings that must never be seen again: the keys and prompts of tests carry them.

`conftest.py` looks for them in what every test printed or logged, the harness in every record,
metric and error body.
"""

from __future__ import annotations

KEY = "KEYMARK7c1d"
PROMPT = "PROMPTMARK93ab"
ALL = (KEY, PROMPT)


def key(name: str) -> str:
    """A marked key."""
    return f"sk-{KEY}-{name}"


def prompt(text: str = "hi") -> str:
    """A marked prompt."""
    return f"{text} {PROMPT}"


def seen(text: str | bytes) -> list[str]:
    """The markers that occur in the text."""
    data = text.encode() if isinstance(text, str) else text
    return [mark for mark in ALL if mark.encode() in data]
