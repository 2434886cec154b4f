"""`python -m tests.soak --minutes 10`: exit 1 if anything was wrong or left."""

from __future__ import annotations

import argparse
import sys

import uvloop

from tests.soak.run import soak


def main() -> int:
    """Run the soak and say what was seen."""
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--clients", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    seen = uvloop.run(soak(args.minutes * 60, clients=args.clients, seed=args.seed))
    counts = [f"  {count:8} {outcome}" for outcome, count in seen.outcomes.most_common()]
    said = [
        f"{seen.requests} requests, {seen.reloads} reloads, {len(seen.wrong)} wrong answers",
        *counts,
        f"p99 of {len(seen.clean_ms)} requests to the engine without faults: {seen.p99_ms:.0f} ms",
        f"memory {seen.memory_mb[-1]:.0f} MB, growth {seen.growth_mb:+.1f} MB",
        *(f"WRONG: {line}" for line in (*seen.wrong[:20], *seen.left)),
    ]
    sys.stdout.write("\n".join(said) + "\n")
    return 1 if seen.wrong or seen.left else 0


sys.exit(main())
