"""docs/isolation.md and the rules name the same codes."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
RULES = ("isolation", "fallback_rules", "overlaps")
ELSEWHERE = {"no-tiers", "two-tiers", "unknown-fallback"}  # found while the file is read


def test_every_isolation_code_has_its_line_and_no_line_is_about_a_code_that_is_gone() -> None:
    page = (ROOT / "docs" / "isolation.md").read_text()
    sources = [(ROOT / "gateway" / "config" / f"{name}.py").read_text() for name in RULES]
    raised = {
        code
        for source in sources
        for code in re.findall(r'"(?:error|warning)",\s*"([a-z-]+)"', source)
    }

    told = set(re.findall(r"^\| `([a-z-]+)`", page, re.MULTILINE))

    assert len(raised) >= 15, "the pattern above no longer finds the codes"
    assert told - ELSEWHERE == raised
    everywhere = "".join(f.read_text() for f in (ROOT / "gateway" / "config").glob("*.py"))
    assert all(f'"{code}"' in everywhere for code in ELSEWHERE)
