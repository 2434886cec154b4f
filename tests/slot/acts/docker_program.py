"""A scripted docker: containers are rows of a file (`FAKE_DOCKER`), each with a real process.

docker run --name NAME ...    starts engine_program.py, its output into a file
docker ps [--all], wait, inspect, logs, stop, kill, rm
"""

from __future__ import annotations

import fcntl
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

STATE = Path(os.environ["FAKE_DOCKER"])
ENGINE = str(Path(__file__).with_name("engine_program.py"))
WHERE = ("--host", "127.0.0.1", "--events", f"{STATE}.events")


@contextmanager
def rows() -> Iterator[dict[str, Any]]:
    with Path(f"{STATE}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        found = json.loads(STATE.read_text()) if STATE.exists() else {}
        yield found
        draft = Path(f"{STATE}.new")
        draft.write_text(json.dumps(found))
        draft.replace(STATE)


def runs(row: dict[str, Any]) -> bool:
    try:
        stat = Path(f"/proc/{row['pid']}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"


def value(args: list[str], name: str) -> str:
    return args[args.index(name) + 1]


def run(args: list[str]) -> int:
    name = value(args, "--name")
    told = ("--alias", value(args, "--served-model-name"), "--port", value(args, "--port"))
    with rows() as found:
        if name in found:
            sys.stderr.write(f"Conflict. The container name {name} is already in use\n")
            return 125
        log = f"{STATE}.{name}.log"
        clean = {k: v for k, v in os.environ.items() if k != "SIGNALBOX_ENGINE"}
        with Path(log).open("wb") as out:
            process = subprocess.Popen(
                [sys.executable, ENGINE, *told, *WHERE],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                env=clean,
                start_new_session=True,
            )
        found[name] = {"pid": process.pid, "log": log}
    sys.stdout.write("0123456789ab\n")
    return 0


def main(args: list[str]) -> int:
    with rows() as found:
        found.setdefault("calls", [])
        found["calls"].append(args)
    what, name = args[0], args[-1]
    if what == "run":
        return run(args)
    with rows() as found:
        containers = {k: v for k, v in found.items() if k != "calls"}
    if what == "ps":
        shown = [k for k, v in containers.items() if "--all" in args or runs(v)]
        sys.stdout.write("\n".join(shown))
        return 0
    if name not in containers:
        sys.stderr.write(f"Error response from daemon: No such container: {name}\n")
        return 1
    row = containers[name]
    if what == "logs":
        while Path(f"{STATE}.logs-hang").exists():
            time.sleep(0.02)
        sys.stdout.write(Path(row["log"]).read_text())
    elif what == "inspect":
        sys.stdout.write("137 true\n")
    elif what in ("stop", "kill", "rm") and runs(row):
        os.kill(row["pid"], signal.SIGTERM if what == "stop" else signal.SIGKILL)
    while what in ("wait", "stop", "kill", "rm") and runs(row):
        time.sleep(0.02)
    if what == "rm":
        with rows() as found:
            found.pop(name, None)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
