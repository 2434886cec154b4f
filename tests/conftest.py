"""What holds for every test: no key and no prompt in anything that it printed or logged."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest

from tests import markers
from tests.clock import Clock


@pytest.fixture
def clock() -> Clock:
    """A clock that only the test moves."""
    return Clock()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[Any]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Fail a test whose captured stdout, stderr or log holds a marked key or prompt."""
    report = yield
    found = {
        m
        for title, text in report.sections
        if "log" in title or "std" in title
        for m in markers.seen(text)
    }
    if found and report.outcome == "passed":
        report.outcome = "failed"
        report.longrepr = f"{item.nodeid}: seen in what the test printed or logged: {found}"
    return report
