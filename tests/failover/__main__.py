"""The table of grades: `python -m tests.failover [--full] [--out FILE] [--tries] [F8 F15 ...]`.

`--full` runs at the scenarios' own times (three minutes); without it they
are all shorter by one factor. The exit code is 1 if a cell is a Defect.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Iterable
from pathlib import Path

from tests.bridging import bridge_process, sender
from tests.failover.bench import Result, play
from tests.failover.pace import FACTOR, loop_maker
from tests.failover.scenarios import ADDED, SCENARIOS
from tests.failover.table import table


def told(results: Iterable[Result]) -> str:
    """Each run with what its caller got and what A and B were asked."""
    lines = []
    for r in results:
        at = [f"{t.since_first_s:.2f}" for t in r.story.tries]
        names = {r.story.model(c) for c in r.calls}
        lines.append(f"{r.run.group}: {r}; A at {at}; answered by {names}")
    return "\n".join(lines)


def main(given: list[str]) -> int:
    """Run, print, write."""
    parser = argparse.ArgumentParser(prog="python -m tests.failover", description=__doc__)
    parser.add_argument("--full", action="store_true", help="the scenarios' own times")
    parser.add_argument("--out", default="run/failover.md", help="where the table goes")
    parser.add_argument("--tries", action="store_true", help="print every run, too")
    parser.add_argument("names", nargs="*", help="scenarios: F1 F2 ...; all without")
    options = parser.parse_args(given)
    wanted = [s for s in SCENARIOS + ADDED if not options.names or s.name in options.names]
    results: list[Result] = []
    with bridge_process() as path, asyncio.Runner(loop_factory=loop_maker(options.full)) as runner:
        for scenario in wanted:
            results += runner.run(play(scenario, sender(path)))
    if options.tries:
        sys.stdout.write(told(results) + "\n")
    times = "their own times" if options.full else f"all times divided by {FACTOR:g}"
    text = f"Failover scenarios, at {times}.\n\n{table(results)}\n"
    sys.stdout.write(text)
    out = Path(options.out)
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(text)
    return int(any(r.grade == "Defect" for r in results))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
