"""Compose's variables, each form against what the Compose specification says of it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from serving.stacks.interpolate import fill

VARIABLES = {"SET": "value", "EMPTY": "", "OTHER": "other"}


@pytest.mark.parametrize(
    ("text", "filled"),
    [
        ("plain", "plain"),
        ("$SET and ${SET}", "value and value"),
        ("$$SET", "$SET"),
        ("${SET:-default}", "value"),
        ("${EMPTY:-default}", "default"),
        ("${EMPTY-default}", ""),
        ("${NONE-default}", "default"),
        ("${NONE:-}", ""),
        ("${NONE:-${OTHER}}", "other"),
        ("${NONE:-${NEITHER:-last}}/x", "last/x"),
        ("${SET:+there}", "there"),
        ("${EMPTY:+there}", ""),
        ("${EMPTY+there}", "there"),
        ("${NONE+there}", ""),
        ("${SET:?why}", "value"),
        ("192.0.2.1:${NONE:-80}:80", "192.0.2.1:80:80"),
        ("${NONE:-a:b-c?d}", "a:b-c?d"),
    ],
)
def test_a_variable_is_filled_in_as_compose_does(text: str, filled: str) -> None:
    found = fill(text, VARIABLES)

    assert (found.text, found.unset, found.refused, found.bad) == (filled, (), (), None)


def test_what_is_unset_without_a_default_is_told() -> None:
    assert fill("$NONE:${NEITHER}", VARIABLES).unset == ("NONE", "NEITHER")


@pytest.mark.parametrize(("text", "name"), [("${EMPTY:?why}", "EMPTY"), ("${NONE?why}", "NONE")])
def test_what_must_be_set_is_refused_with_its_reason(text: str, name: str) -> None:
    assert fill(text, VARIABLES).refused == ((name, "why"),)


@pytest.mark.parametrize("text", ["$", "${}", "${", "a $1", "${SET", "${1}", "${SET!x}"])
def test_what_compose_cannot_read_is_told(text: str) -> None:
    assert fill(text, VARIABLES).bad is not None


@given(st.text(alphabet="${}:-?+ABab$", max_size=30))
def test_no_text_is_too_strange(text: str) -> None:
    found = fill(text, VARIABLES)

    assert isinstance(found.text, str)


@given(st.text(max_size=40))
def test_a_text_with_its_dollars_doubled_is_itself(text: str) -> None:
    assert fill(text.replace("$", "$$"), VARIABLES).text == text
