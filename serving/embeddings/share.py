"""What a lane takes of the processor beside others: its turn, and which cores.

    normal   as every process
    low      nice 10, in batches: a tenth of a contested core
    idle     only what nobody else wants: a process of normal priority takes the core at once

It is set before any thread is started, because threads inherit it. Linux keeps a fair share between
groups of processes before it looks at any priority within one: in containers that is `cpu_shares`,
in units `CPUWeight`, and where it makes a group of each session (autogroup), the session's own
figure, which is set here too if this process leads its session.
"""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, get_args

from serving.errors import Unusable

Priority = Literal["normal", "low", "idle"]
PRIORITIES: Final[tuple[Priority, ...]] = get_args(Priority)
_POLICIES: Final[dict[Priority, int]] = {"low": os.SCHED_BATCH, "idle": os.SCHED_IDLE}
_NICE: Final[dict[Priority, int]] = {"low": 10, "idle": 19}
_AUTOGROUP: Final = Path("/proc/self/autogroup")


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """What was asked for; `cores` empty: all of them."""

    priority: Priority = "normal"
    cores: frozenset[int] = frozenset()


def cores(text: str) -> frozenset[int]:
    """`0,2-3` -> {0, 2, 3}. ValueError for anything else."""
    found: set[int] = set()
    for part in text.split(","):
        first, dash, last = part.partition("-")
        low, high = int(first), int(last if dash else first)
        if high < low:
            raise ValueError(f"{part} runs backwards")
        found.update(range(low, high + 1))
    return frozenset(found)


def take(share: Share) -> None:
    """Put this process, and the threads that it will start, there. Raises Unusable.

    A lower priority needs no rights, and cannot be taken back without them.
    """
    if share.cores:
        here = os.sched_getaffinity(0)
        if not share.cores <= here:
            asked, has = _listed(share.cores), _listed(here)
            raise Unusable(f"cores {asked} are not all to be had: this process may use {has}")
        os.sched_setaffinity(0, share.cores)
    if share.priority != "normal":
        nice = _NICE[share.priority]
        os.setpriority(os.PRIO_PROCESS, 0, max(nice, os.getpriority(os.PRIO_PROCESS, 0)))
        os.sched_setscheduler(0, _POLICIES[share.priority], os.sched_param(0))
        _lower_the_session(nice)


def seen() -> Share:
    """What holds for this process, as the kernel says."""
    policies = {number: name for name, number in _POLICIES.items()}
    return Share(
        priority=policies.get(os.sched_getscheduler(0), "normal"),
        cores=frozenset(os.sched_getaffinity(0)),
    )


def _lower_the_session(nice: int) -> None:
    """A session that another process leads is not ours: a shell's other jobs would sink with us."""
    if os.getsid(0) == os.getpid():
        with suppress(OSError):  # no such kernel, or no right to it
            _AUTOGROUP.write_text(str(nice), encoding="ascii")


def _listed(numbers: frozenset[int] | set[int]) -> str:
    return ",".join(map(str, sorted(numbers)))
