"""YAML with places: every key and value where an editor shows it, and never a traceback."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml
from hypothesis import example, given, settings
from hypothesis import strategies as st

from common.problems import Place
from common.source import MAX_VALUES, read, read_file

WORDS = st.text("abcdefg", min_size=1, max_size=5).map(lambda word: f"k{word}")
SCALARS = st.one_of(st.integers(-9, 9), st.booleans(), st.none(), WORDS)
DATA = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=3),
    max_leaves=12,
)
MAPPINGS = st.dictionaries(WORDS, DATA, min_size=1, max_size=4)
LINE_ENDS = st.sampled_from(["\n", "\r\n", "\r"])


def written(data: Any, *, flow: bool) -> str:
    return yaml.safe_dump(data, sort_keys=False, default_flow_style=flow)


def at(text: str, place: Place) -> str:
    """The text that begins at a place, as an editor counts."""
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    return lines[place.line - 1][place.column - 1 :]


@settings(deadline=None)  # the machine may be busy
@given(st.one_of(st.text(), st.binary()))
@example("{[")
@example("a: &x [*x]")
@example("? [1]\n: 2")
@example("a: !!int x\nb: !!timestamp y\nc: 0b\nd: !!float z\ne: !!bool q")
@example("[" * 400)
@example("a: !!binary x\nb: !<tag:yaml.org,2002:null> x")
@example("<<: [1]\n")
@example("a: 1\n...\n%YAML 9\n---\n")
@example("a: \U000e0001\ud800")
@example(b"\xff\xfea\x00:\x00")
def test_no_text_raises(text: str | bytes) -> None:
    source = read(text, "f.yaml")

    assert source.data or source.problems or text in ("{}", b"{}") or not source.data
    for problem in source.problems:
        assert problem.place.line >= 1
        assert problem.place.column >= 1


@settings(deadline=None)  # the machine may be busy
@given(MAPPINGS, st.booleans())
def test_data_is_what_yaml_reads(data: dict[str, Any], flow: bool) -> None:
    source = read(written(data, flow=flow), "f.yaml")

    assert source.data == data
    assert source.problems == ()


@settings(deadline=None)  # the machine may be busy
@given(MAPPINGS, st.booleans(), LINE_ENDS, st.booleans())
def test_every_key_and_value_is_where_it_says(
    data: dict[str, Any], flow: bool, end: str, bom: bool
) -> None:
    text = written(data, flow=flow).replace("\n", end)

    source = read(("\ufeff" if bom else "") + text, "f.yaml")

    for path, place in source.keys.items():
        assert at(text, place).startswith(str(path[-1]))
    for path, place in source.values.items():
        if path in source.texts:
            assert at(text, place).lstrip("'\"").startswith(source.texts[path])


def test_a_key_written_twice_is_a_problem_at_the_second() -> None:
    source = read("a: 1\nb: {c: 1, c: 2}\na: 3\n", "f.yaml")

    found = [(str(p.place), p.code) for p in source.problems]
    assert found == [("f.yaml:2:11", "duplicate-key"), ("f.yaml:3:1", "duplicate-key")]


def test_a_merge_may_be_overridden() -> None:
    source = read("a: &a {x: 1, y: 2}\nb: {<<: *a, y: 3}\n", "f.yaml")

    assert source.data["b"] == {"x": 1, "y": 3}
    assert source.problems == ()


def test_an_anchor_bomb_is_refused() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 8)]

    source = read("\n".join(lines), "f.yaml")

    assert [p.code for p in source.problems] == ["yaml"]
    assert str(MAX_VALUES) in source.problems[0].message


def test_a_place_that_is_not_known_is_the_nearest_above() -> None:
    source = read("a:\n  b: 1\n", "f.yaml")

    assert source.place(("a", "b", "c")) == Place("f.yaml", 2, 3)
    assert source.value(("a", "b", "c")) == Place("f.yaml", 2, 6)
    assert source.place(("z",)) == Place("f.yaml", 1, 1)


def test_a_date_is_text() -> None:
    assert read("a: 2026-11-30\n", "f.yaml").data == {"a": "2026-11-30"}


def test_a_file_that_is_not_there_is_a_problem(tmp_path: Path) -> None:
    source = read_file(str(tmp_path / "none.yaml"))

    assert [(p.code, p.place.line) for p in source.problems] == [("unreadable", 1)]
    assert "No such file" in source.problems[0].message


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    assert [p.code for p in read_file(str(tmp_path)).problems] == ["unreadable"]
