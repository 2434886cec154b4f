"""`python bench/compare.py`: the gateway beside its peers, in one interleaved run.

bench/README.md tells the method and how to install the peers. Nothing leaves loopback; what is
started is stopped; the exit code is 1 where the gateway answered wrongly or lost a record, or,
with --strict, where a target was missed.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
from pathlib import Path
from types import FrameType

if __package__ in (None, ""):  # run as a file: the checkout is not on the path yet
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench import contenders as known
from bench.contenders import Contender
from bench.figures import Figures
from bench.report import missed, receipt, remarks, table, verdicts
from bench.rig import RigError, pick_cores
from bench.rounds import run


def main(arguments: list[str] | None = None) -> int:
    """Run the comparison that the arguments ask for; the exit code."""
    options = _options(arguments)
    signal.signal(signal.SIGTERM, _leave)  # so that what was started is stopped
    contenders = _chosen(options)
    try:
        cores = pick_cores()
        turns = run(
            contenders, cores=cores, rounds=options.rounds, seconds=options.seconds, say=_say
        )
    except RigError as problem:
        _say(f"bench: {problem}")
        return 1
    except KeyboardInterrupt:
        _say("bench: stopped")
        return 130
    figures = Figures(turns)
    print(table(figures), verdicts(figures), "\n".join(remarks(figures)), sep="\n\n")
    if options.json:
        data = receipt(turns, contenders, cores, options.seconds)
        Path(options.json).write_text(json.dumps(data, indent=1) + "\n")
    return 1 if _is_wrong(figures) or (options.strict and missed(figures)) else 0


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench/compare.py", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3, choices=range(1, 10), metavar="1..9")
    parser.add_argument("--seconds", type=float, default=2.0, help="each cell, 0.2 to 30")
    parser.add_argument("--only", action="append", metavar="NAME", help="only these, repeatable")
    parser.add_argument("--nginx", metavar="PROGRAM", help="default: nginx on the path")
    parser.add_argument("--litellm", metavar="VENV", help="default: .bench/litellm")
    parser.add_argument("--vllm-router", metavar="VENV", help="default: .bench/vllm-router")
    parser.add_argument(
        "--also", action="append", default=[], metavar="NAME=COMMAND", help=known.another.__doc__
    )
    parser.add_argument("--json", metavar="FILE", help="write the receipt there")
    parser.add_argument("--strict", action="store_true", help="exit 1 where a target is missed")
    options = parser.parse_args(arguments)
    if not 0.2 <= options.seconds <= 30:
        parser.error("--seconds: 0.2 to 30")
    return options


def _chosen(options: argparse.Namespace) -> list[Contender]:
    """The contenders that are here, in the table's order; what is missing is named."""
    found: list[tuple[str, Contender | None]] = [
        ("direct", known.direct()),
        ("nginx", known.nginx(options.nginx)),
        ("gateway", known.gateway()),
        ("vllm-router", known.vllm_router(options.vllm_router)),
        ("litellm", known.litellm(options.litellm)),
    ]
    found += [(contender.name, contender) for contender in map(known.another, options.also)]
    wanted = options.only or [name for name, _ in found]
    for name, contender in found:
        if contender is None and name in wanted:
            _say(f"{name} is not installed: left out (bench/README.md says how)")
    return [c for name, c in found if c is not None and name in wanted]


def _is_wrong(figures: Figures) -> bool:
    """True if the gateway gave a wrong answer, or did not write one good record a request."""
    return any(
        turn.records != turn.requests
        or turn.records_ok != turn.requests
        or any(measured.seen.bad or measured.seen.in_flight for measured in turn.cells)
        for turn in figures.of("gateway")
    )


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _leave(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
