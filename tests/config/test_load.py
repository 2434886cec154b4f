"""From a path to a Config: what is read, the revision, and what comes with a bad file."""

from __future__ import annotations

import subprocess
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from common.problems import has_errors
from gateway.config.load import load, load_text
from tests.config.files import ENVIRON, codes, entry, file

LINES = (Path(__file__).parents[2] / "config.example.yaml").read_text().splitlines()


def git(folder: Path, *arguments: str) -> str:
    command = ["git", "-C", str(folder), "-c", "user.name=a", "-c", "user.email=a@b", *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def test_a_file_outside_a_repository_has_its_content_as_revision(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_bytes(file())

    loaded = load(str(path), ENVIRON)

    assert loaded.config is not None
    assert loaded.config.revision.commit is None
    assert len(loaded.config.revision.sha256) == 64


def test_a_tracked_file_has_its_commit_and_a_mark_when_it_was_changed(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_bytes(file())
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", "config.yaml")
    git(tmp_path, "commit", "-q", "-m", "one")

    clean = load(str(path), ENVIRON).config
    path.write_bytes(file(entry(rpm=3)))
    dirty = load(str(path), ENVIRON).config

    assert clean is not None
    assert dirty is not None
    assert (
        clean.revision.commit
        == dirty.revision.commit
        == git(tmp_path, "rev-parse", "--short", "HEAD")
    )
    assert (clean.revision.dirty, dirty.revision.dirty) == (False, True)
    assert str(dirty.revision).endswith("-dirty")
    assert clean.revision.sha256 != dirty.revision.sha256


def test_an_untracked_file_in_a_repository_has_no_commit(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    path = tmp_path / "config.yaml"
    path.write_bytes(file())

    loaded = load(str(path), ENVIRON)

    assert loaded.config is not None
    assert loaded.config.revision.commit is None


def test_a_file_that_is_not_there_is_one_problem(tmp_path: Path) -> None:
    loaded = load(str(tmp_path / "none.yaml"), ENVIRON)

    assert loaded.config is None
    assert codes(loaded) == ["unreadable"]


def test_a_warning_does_not_keep_a_file_from_being_served() -> None:
    loaded = load_text(file(entry(), entry("other")), "config.yaml", ENVIRON)

    assert codes(loaded) == ["no-tiers"]
    assert loaded.config is not None


@settings(deadline=None)  # the machine may be busy
@given(st.lists(st.integers(0, len(LINES) - 1), min_size=1, max_size=6, unique=True))
def test_a_file_with_lines_missing_never_raises(gone: list[int]) -> None:
    text = "\n".join(line for i, line in enumerate(LINES) if i not in gone)

    loaded = load_text(text.encode(), "config.yaml", {})

    assert loaded.config is None or not has_errors(loaded.problems)


@settings(deadline=None)  # the machine may be busy
@given(st.integers(0, len(LINES) - 1), st.sampled_from(["- x", "{}", "[]", "3", "yes", "~", "'*'"]))
def test_a_file_with_another_value_in_one_place_never_raises(line: int, value: str) -> None:
    head, colon, _ = LINES[line].partition(": ")
    changed = [*LINES[:line], f"{head}{colon}{value}", *LINES[line + 1 :]]

    loaded = load_text("\n".join(changed).encode(), "config.yaml", {}, check_env=False)

    assert loaded.config is None or not has_errors(loaded.problems)


def test_half_a_file_is_a_problem_at_its_end(tmp_path: Path) -> None:
    text = file()
    for length in range(0, len(text), 7):
        loaded = load_text(text[:length], "config.yaml", ENVIRON)

        assert loaded.config is None or not has_errors(loaded.problems)
