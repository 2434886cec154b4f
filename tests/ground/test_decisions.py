"""Design decisions and postmortems: their form, and that what they name exists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.ground import repository
from tests.ground.repository import ROOT

DECISIONS = sorted((ROOT / "design-decisions").glob("[0-9]*.md"))
POSTMORTEMS = sorted((ROOT / "postmortems").glob("*.md"))

DECISION_HEADINGS = [
    "Context and problem statement",
    "Considered options",
    "Decision outcome",
    "Consequences",
    "Confirmation",
]
POSTMORTEM_HEADINGS = [
    *("Summary", "Impact", "Detection", "Trigger", "Root causes", "Resolution", "Timeline"),
    *("What went well", "What went wrong", "Actions", "Evidence", "Regression test"),
]


def headings(path: Path) -> list[str]:
    return re.findall(r"^#{2,3} (.+)$", path.read_text(), re.MULTILINE)


def section(path: Path, heading: str) -> str:
    return re.split(rf"^#{{2,3}} {heading}$", path.read_text(), flags=re.MULTILINE)[1].split(
        "\n## "
    )[0]


def named_paths(text: str) -> list[str]:
    """Paths in code marks; a `::test` after one is the test's name."""
    marked = re.findall(r"`([\w.-]+(?:/[\w.-]+)*(?:\.\w+|/))(?:::\w+)?`|`(tests/[\w/]+)`", text)
    return [first or second for first, second in marked]


@pytest.mark.parametrize("path", DECISIONS, ids=lambda p: p.stem)
def test_a_decision_has_its_headings_status_and_date(path: Path) -> None:
    text = path.read_text()

    assert [h for h in headings(path) if h in DECISION_HEADINGS] == DECISION_HEADINGS
    assert re.search(r"(?i)status:\W*(accepted|superseded|proposed|deprecated)", text)
    assert re.search(r"(?i)date:\W*\d{4}-\d\d-\d\d", text)


@pytest.mark.parametrize("path", DECISIONS, ids=lambda p: p.stem)
def test_a_decision_has_a_price(path: Path) -> None:
    consequences = section(path, "Consequences")

    assert "Good" in consequences
    assert "Bad" in consequences


@pytest.mark.parametrize("path", DECISIONS, ids=lambda p: p.stem)
def test_a_decision_is_confirmed_by_something_that_exists(path: Path) -> None:
    named = named_paths(section(path, "Confirmation"))

    assert named
    assert not [name for name in named if not (ROOT / name).exists()]


def test_each_decision_has_a_number_of_its_own() -> None:
    numbers = [path.name[:3] for path in DECISIONS]

    assert len(numbers) == len(set(numbers))


@pytest.mark.parametrize("path", POSTMORTEMS, ids=lambda p: p.stem)
def test_a_postmortem_has_its_headings_and_a_test_that_replays_it(path: Path) -> None:
    assert headings(path) == POSTMORTEM_HEADINGS
    assert re.match(r"\d{4}-\d\d-\d\d-", path.name)

    named = named_paths(section(path, "Regression test"))

    assert any(name.startswith("tests/") for name in named)
    assert not [name for name in named if not (ROOT / name).exists()]


@pytest.mark.parametrize("path", repository.files(".md"), ids=repository.name)
def test_a_link_between_pages_leads_somewhere(path: Path) -> None:
    links = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", path.read_text())

    assert not [link for link in links if not (path.parent / link).exists()]
