"""A verdict as people read it, and as data."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from serving.embeddings.gate.judge import Verdict


def as_text(verdict: Verdict) -> str:
    """The table, then each problem, then the word."""
    rows = [f"{'TEXT':<16}{'BATCH':>9}{'SINGLE':>9}{'ITSELF':>9}{'NORM':>9}"]
    for line in verdict.lines:
        figures = (line.batch, line.single, line.itself, line.norm)
        rows.append(f"{line.name:<16}" + "".join(f"{figure:>9.5f}" for figure in figures))
    reference, candidate = verdict.dimensions
    tokens = "prompt_tokens {} and {}".format(*verdict.prompt_tokens)
    rows += ["", f"dimensions {reference} and {candidate}, {tokens}"]
    rows += [f"problem: {problem}" for problem in verdict.problems]
    word = "passed" if verdict.passed else "FAILED"
    return "\n".join([*rows, f"{word}: every cosine must be at least {verdict.least:g}"])


def as_data(verdict: Verdict) -> dict[str, Any]:
    """The same, for `--json`."""
    return {"passed": verdict.passed, **asdict(verdict)}
