"""Text that a client chose, made safe to store: short, printable, one line."""

from __future__ import annotations

MAX_CHARACTERS = 64

# A header may be 64 kB of control characters: look only this far for what is worth keeping.
_LOOK_AT = 1024


def clean_text(value: str | bytes | None) -> str:
    """The first 64 printable characters of `value`; "" for None. Never raises.

    Control characters, line ends, direction marks and lone surrogates are left out, so that the
    result fits one line of a log and encodes as UTF-8.
    """
    if value is None:
        return ""
    if isinstance(value, bytes):
        value = value[: _LOOK_AT * 4].decode("utf-8", "replace")
    if len(value) <= MAX_CHARACTERS and value.isprintable():
        return value
    kept = "".join(c for c in value[:_LOOK_AT] if c.isprintable())
    return kept[:MAX_CHARACTERS].strip()
