"""`gateway restart`: start the detached restart, and show what it says while one watches."""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from pathlib import Path

from gateway.cli_files import complain
from gateway.restart import LOG, STATE, State


def restart(args: argparse.Namespace) -> int:
    """Exit 0: the file serves. 1: it does not, and what served before serves again."""
    run = Path(args.run)
    try:
        state = State.read(run)
    except FileNotFoundError:
        return complain(
            f"nothing serves from {run} ({run / STATE} is not there): start it with serve"
        )
    config = str(Path(args.file).resolve()) if args.file else state.config
    command = [sys.executable, "-m", "gateway.restart", str(run.resolve()), config]
    log = run / LOG
    with log.open("wb") as out:
        detached = subprocess.Popen(
            [*command, str(args.wait), str(args.patience)],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            start_new_session=True,  # it goes on when this terminal closes, or on Ctrl-C
        )
    with log.open() as said:
        while detached.poll() is None:
            sys.stdout.write(said.read())
            sys.stdout.flush()
            time.sleep(0.1)  # a file tells nobody that it grew
        sys.stdout.write(said.read())
    return detached.returncode
