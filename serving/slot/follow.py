"""What a person watches: a load until it serves, a log as it grows, a bench until it is done."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Final

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from serving.slot.ask import Asks

_PAUSE_S: Final = 0.25
_DONE: Final = ("ready", "failed", "replaced", "stopped")


def follow_load(asks: Asks, console: Console) -> int:
    """Show the last switch until it is over; 0 if its recipe serves."""
    with Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[seen]}", markup=False),
        console=console,
        transient=True,
    ) as progress:
        bar = progress.add_task("waiting", total=None, seen="")
        while True:
            found = asks.get("/api/slot/status")
            job = found["job"] or {"state": "replaced", "recipe": None, "reason": ""}
            if job["state"] in _DONE:
                break
            load = found["progress"] or {}
            progress.update(
                bar,
                description=f"{job['recipe']} {job['state']}",
                total=load.get("expected_s"),
                completed=load.get("elapsed_s", 0.0),
                seen=load.get("seen") or _holds_up(found),
            )
            time.sleep(_PAUSE_S)  # between two looks: the control plane does not call back
    return _said(console, found, job)


def _holds_up(found: dict[str, Any]) -> str:
    """What the swap waits for."""
    if found["leases"]:
        return f"{found['leases']} requests run on {found['recipe']}"
    return f"{found['phase']} {found['recipe'] or ''}"


def _said(console: Console, found: dict[str, Any], job: dict[str, Any]) -> int:
    if job["state"] == "ready":
        loads = found["loads"].get(job["recipe"])
        took = f" ({loads['last_s']:.1f} s)" if loads else ""
        console.print(f"{job['recipe']} serves {found['served_name']} on {found['url']}{took}")
        return 0
    if job["state"] == "failed":
        console.print(f"{job['recipe']} failed: {job['reason']}")
        tail = found["failures"].get(job["recipe"], {}).get("log_tail", "")
        console.print(tail)
        return 1
    console.print(f"{job['recipe']}: {job['state']} by a later wish; see `serving slot status`")
    return 1


def follow_log(
    asks: Asks, asked: dict[str, str], write: Callable[[str], object], *, follow: bool
) -> int:
    """Print the tail, and with `follow` what comes, until interrupted."""
    while True:
        found = asks.get("/api/slot/logs", **asked)
        for line in found["lines"]:
            write(f"{line}\n")
        if not follow:
            return 0
        asked |= {"file": found["file"] or "", "at": str(found["at"])}
        time.sleep(_PAUSE_S)  # a file tells nobody that it grew


def until_measured(asks: Asks) -> dict[str, Any]:
    """The result of the bench that runs."""
    while True:
        found: dict[str, Any] | None = asks.get("/api/slot/status")["bench"]
        if found is not None:
            return found
        time.sleep(_PAUSE_S)  # as above
