"""Each golden/NAME.yaml is one mistake, or a few of a kind; NAME.txt is what the checker says.

Its first line says what it shows. Make them anew with `python -m tests.config.test_golden`, and
read what changed: these messages are what an operator sees.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from common.problems import render
from gateway.config.load import load_text

FOLDER = Path(__file__).parent / "golden"
ENVIRON = {
    "MASTER_KEY": "sk-master-0123456789abcdef",
    "KEY_ONE": "sk-one-0123456789abcdef",
    "KEY_TWO": "sk-two-0123456789abcdef",
    "KEY_THREE": "sk-three-0123456789abcdef",
    "KEY_FOUR": "sk-four-0123456789abcdef",
    "SHORT_KEY": "sk-short",
    "SAMPLE_KEY": "sk-1234",
    "EMPTY": " ",
    "TWO_LINES": "sk-one\nsk-two",
    "RPM": "8",
    "WORD": "soon",
}
FILES = sorted(FOLDER.glob("*.yaml"))


def said(file: Path) -> str:
    """Everything the checker says about a file, one line a problem."""
    loaded = load_text(file.read_bytes(), file.name, ENVIRON)
    assert (loaded.config is None) == any(p.severity == "error" for p in loaded.problems)
    return (render(loaded.problems) or "clean") + "\n"


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_the_checker_says_what_is_wrong_where_and_what_to_do(file: Path) -> None:
    expected = file.with_suffix(".txt").read_text()

    found = said(file)

    assert found == expected


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_no_message_shows_a_key(file: Path) -> None:
    found = said(file)

    secrets = [v for k, v in ENVIRON.items() if "KEY" in k] + ["user:pass", "12345678"]
    assert not [secret for secret in secrets if secret in found]


def test_every_row_of_the_table_of_ignored_mistakes_has_a_golden() -> None:
    rows = {int(file.stem[4:6]) for file in FILES if file.stem.startswith("row-")}

    assert rows == set(range(1, 50))


if __name__ == "__main__":
    for one in FILES:
        one.with_suffix(".txt").write_text(said(one))
