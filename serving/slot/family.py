"""The processes of one start: the leader, its group and session, and whoever left them.

Every process of an engine inherits a variable with the id of its start. So a child that made
itself independent is found, and so is an engine whose starter was killed before it could note the
process id. A process id alone is never trusted: start time and boot go with it.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final

from serving.slot import proc

VARIABLE: Final = "SIGNALBOX_ENGINE"


class CannotStart(Exception):
    """The command cannot be run; the message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """How one start is found again: noted before anything runs, and completed once it does."""

    id: str
    recipe: str
    folder: str  # of the slot: another control plane's engines are not ours
    port: int
    log: str
    boot: str
    began: float  # wall clock, for people
    pid: int | None = None
    started: int | None = None
    ready: bool = False  # it has served
    containers: tuple[str, ...] = ()  # any of these names may be its container

    @property
    def text(self) -> str:
        """The value of the variable."""
        return f"{self.id}:{self.recipe}:{self.folder}"

    def as_data(self) -> dict[str, Any]:
        """JSON-ready."""
        return asdict(self)

    @classmethod
    def of_data(cls, data: Any) -> Mark | None:
        """The mark in a file; None where it holds none."""
        try:
            return cls(**{**data, "containers": tuple(data.get("containers", ()))})
        except (TypeError, AttributeError):
            return None


def spawn(
    mark: Mark, argv: Sequence[str], environ: Mapping[str, str], cwd: str | None
) -> tuple[Mark, subprocess.Popen[bytes]]:
    """Start the command in a session of its own, writing into the mark's log. Raises CannotStart.

    It does not end with us: a gateway or control plane that restarts must not touch an engine.
    """
    output = os.open(mark.log, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        process = subprocess.Popen(
            list(argv),
            env={**environ, VARIABLE: mark.text},
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise CannotStart(f"cannot start {argv[0]}: {why}") from error
    finally:
        os.close(output)
    seen = proc.process(process.pid)  # None: it has ended already
    return replace(mark, pid=process.pid, started=seen.started if seen else -1), process


def members(mark: Mark) -> list[proc.Process]:
    """Everyone of this start who still runs."""
    if mark.boot != proc.boot_id():
        return []
    running = [each for each in proc.processes() if each.pid != os.getpid()]
    # As long as a group has a member, no new process gets its number. A process of that number
    # with another start time says that the group is gone, and that it would be a stranger's.
    reused = any(p.pid == mark.pid and p.started != mark.started for p in running)
    return [p for p in running if _belongs(p, mark, by_number=not reused)]


def _belongs(process: proc.Process, mark: Mark, *, by_number: bool) -> bool:
    if by_number and mark.pid is not None and mark.pid in (process.group, process.session):
        return True
    return proc.variable(process.pid, VARIABLE) == mark.text


def leads(mark: Mark) -> bool:
    """Whether the process that was started itself still runs."""
    if mark.pid is None or mark.boot != proc.boot_id():
        return False
    found = proc.process(mark.pid)
    return found is not None and found.started == mark.started


def strays(folder: Path, known: Mark | None) -> list[Mark]:
    """What runs for this slot beside the known start: nobody noted it, or nobody ended it."""
    found: dict[str, Mark] = {}
    for each in proc.processes():
        text = proc.variable(each.pid, VARIABLE)
        if text is None or each.pid == os.getpid():
            continue
        start, recipe, where = [*text.split(":", 2), "", ""][:3]
        if where != str(folder) or (known is not None and start == known.id):
            continue
        leader = each if each.session == each.pid else None
        if start not in found or leader is not None:
            found[start] = Mark(
                id=start,
                recipe=recipe,
                folder=where,
                port=0,
                log="",
                boot=proc.boot_id(),
                began=0.0,
                pid=leader.pid if leader else None,
                started=leader.started if leader else None,
            )
    return list(found.values())


def ask_to_stop(mark: Mark) -> None:
    """SIGTERM for all of them."""
    _signal(mark, signal.SIGTERM)


def kill(mark: Mark) -> None:
    """SIGKILL for all of them; a fork at this moment is found by the next call."""
    _signal(mark, signal.SIGKILL)


def _signal(mark: Mark, number: signal.Signals) -> None:
    for each in members(mark):
        # It may end between the look and the signal; what is another user's, ends by itself.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(each.pid, number)
