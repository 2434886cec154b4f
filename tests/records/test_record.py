from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.records.record import clean_text


@given(st.one_of(st.text(max_size=3000), st.binary(max_size=3000), st.none()))
def test_client_text_is_short_printable_and_encodes(value: str | bytes | None) -> None:
    text = clean_text(value)

    assert len(text) <= 64
    assert text == "" or text.isprintable()
    text.encode()


@pytest.mark.parametrize(
    ("value", "kept"),
    [
        ("OpenAI/Python 1.2", "OpenAI/Python 1.2"),
        (b"curl/8.5.0", "curl/8.5.0"),
        ("a\r\nX-Injected: 1", "aX-Injected: 1"),
        ("\x1b[31mred\x00", "[31mred"),
        ("\u202egpj.exe", "gpj.exe"),
        ("\ud800x", "x"),
        (None, ""),
        ("x" * 5_000_000, "x" * 64),
    ],
)
def test_client_text_loses_what_a_log_line_cannot_hold(
    value: str | bytes | None, kept: str
) -> None:
    assert clean_text(value) == kept
