"""Whatever stands in a folder of recipes, the reader says what is wrong and never falls over."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from common.problems import has_errors
from common.source import read
from serving.engines import engines
from serving.engines.engine import Host
from serving.recipes.load import FOLDER, files, load_folder, load_source
from serving.recipes.roi import read_profiles
from tests.recipes.build import GOOD, folder, loaded

EXAMPLES = {path.name: yaml.safe_load(path.read_text()) for path in files(FOLDER, drafts=False)}
PROFILES, _ = read_profiles(FOLDER)
ODD = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3)
    ),
    max_leaves=6,
)


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(sorted(EXAMPLES)), st.data())
def test_a_file_with_any_value_in_any_place_is_read_or_refused(
    name: str, data: st.DataObject
) -> None:
    changed = yaml.safe_load(yaml.safe_dump(EXAMPLES[name]))
    holder = changed
    while True:
        key = data.draw(st.sampled_from(sorted(holder, key=str)))
        inner = holder[key]
        if not (isinstance(inner, dict) and inner and data.draw(st.booleans())):
            break
        holder = inner
    holder[key] = data.draw(ODD)
    text = yaml.safe_dump(changed)

    made, problems = load_source(read(text, str(FOLDER / name)), FOLDER, PROFILES)

    assert (made is None) == has_errors(problems)
    if made:
        assert engines.launch(made, Host()).argv


@pytest.mark.parametrize("text", ["", "\n", "- a\n", "a: [", "\t", "&a [*a]", "id: *x", "a: b: c"])
def test_what_is_no_recipe_is_a_problem_of_its_own(text: str, tmp_path: Path) -> None:
    found = loaded(tmp_path, one=GOOD, two=text)

    assert set(found.recipes) == {"one"}
    assert all(Path(p.place.file).name == "two.yaml" for p in found.problems)
    assert has_errors(found.problems)


def test_bytes_that_are_no_text_are_a_problem(tmp_path: Path) -> None:
    folder(tmp_path, one=GOOD)
    (tmp_path / "two.yaml").write_bytes(b"id: \xff\n")

    assert [p.code for p in load_folder(tmp_path).problems] == ["yaml"]


def test_a_folder_in_the_place_of_a_file_is_a_problem(tmp_path: Path) -> None:
    folder(tmp_path, one=GOOD)
    (tmp_path / "two.yaml").mkdir()

    assert [p.code for p in load_folder(tmp_path).problems] == ["unreadable"]


def test_a_broken_file_of_identities_leaves_the_recipes_out_with_a_reason(tmp_path: Path) -> None:
    found = loaded(tmp_path, one=GOOD, **{"roi-profiles": "profiles: {}\n"})

    assert not found.recipes
    assert {p.code for p in found.problems} == {"wrong-type", "roi-unknown"}


def test_a_key_without_a_value_is_as_good_as_absent(tmp_path: Path) -> None:
    assert set(loaded(tmp_path, one=GOOD + "notes:\ntags:\n").recipes) == {"one"}
