"""Weights nobody can write, caches that last and belong to one stack, memory to talk through."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from common.problems import Problem
from serving.stacks.part import Part, Rule

CACHES: Final = (".cache", "/cache", "/hf", "huggingface", "torchinductor", ".triton", ".vllm")
_DRIVE: Final = re.compile(r"[A-Za-z]:(?=[\\/])")  # a path of Windows has a colon of its own
_JIT: Final = frozenset({"vllm", "sglang"})  # engines that compile kernels at their first start


@dataclass(frozen=True, slots=True, kw_only=True)
class Mount:
    """One host path or volume in a container."""

    index: int
    source: str
    target: str
    read_only: bool

    @property
    def cache(self) -> bool:
        return any(word in self.target for word in CACHES)


def mounts(part: Part) -> tuple[Mount, ...]:
    """What a service mounts, out of the short and the long form."""
    return tuple(_mounts(part))


def _mounts(part: Part) -> Iterator[Mount]:
    given = part.service.data.get("volumes")
    for index, item in enumerate(given if isinstance(given, list) else ()):
        if isinstance(item, Mapping):
            yield Mount(
                index=index,
                source=str(item.get("source") or ""),
                target=str(item.get("target") or ""),
                read_only=item.get("read_only") is True,
            )
        else:
            drive, text = _DRIVE.match(str(item)), str(item)
            start = drive.end() if drive else 0
            source, target, options = (*text[start:].split(":"), "", "")[:3]
            source = text[:start] + source
            ro = "ro" in options.split(",")
            yield Mount(index=index, source=source, target=target or source, read_only=ro)


def weights(part: Part) -> Iterator[Problem]:
    """The folder that holds the model's files, writable for the program that reads them."""
    model = part.launch.model if part.launch else None
    if model is None or not model.startswith("/"):
        return
    holding = [m for m in mounts(part) if f"{model}/".startswith(m.target.rstrip("/") + "/")]
    nearest = max(holding, key=lambda mount: len(mount.target), default=None)
    if nearest and not nearest.read_only and not nearest.cache:
        said = f"the weights at {nearest.target} are mounted writable: add `:ro`"
        yield part.service.problem("weights-writable", said, "volumes", nearest.index)


def caches(part: Part) -> Iterator[Problem]:
    """Compiled kernels and graphs are lost with the container, and made anew for minutes."""
    if part.launch is None or part.launch.engine.name not in _JIT:
        return
    if not part.launch.known:
        return
    if not any(m.cache and not m.read_only and "huggingface" not in m.target for m in mounts(part)):
        said = "no cache but for weights is mounted: what the engine compiles is lost with its"
        said += " container; mount a host path of this stack, and name it in XDG_CACHE_HOME"
        path = "volumes" if "volumes" in part.service.data else "image"
        yield part.service.problem("no-cache", said, path)


def shared_memory(part: Part) -> Iterator[Problem]:
    """Ranks talk through /dev/shm, and docker gives 64 MB of it."""
    if part.launch is None or part.launch.engine.name not in _JIT:
        return
    ipc, size = part.service.data.get("ipc") == "host", "shm_size" in part.service.data
    if not ipc and not size:
        ranks = part.launch.ranks
        code = "no-shared-memory" if ranks > 1 else "shared-memory"
        enough = f"and {ranks} ranks talk through it" if ranks > 1 else "too little for two ranks"
        said = f"docker's 64 MB of shared memory, {enough}: write `ipc: host` and a `shm_size`"
        yield part.service.problem(code, said)
    elif not size:
        said = "`ipc: host` without `shm_size`: with ipc taken away 64 MB are left; write the size"
        yield part.service.problem("shared-memory", said, "ipc")
    elif not ipc and part.launch.ranks > 1:
        said = "`shm_size` without `ipc: host`: ranks may also share memory by other ways of IPC"
        yield part.service.problem("shared-memory", said, "shm_size")


def lane_limits(part: Part) -> Iterator[Problem]:
    """The query lane is on the CPU of a host that has other work."""
    if not part.query_lane:
        return
    missing = [key for key in ("cpus", "mem_limit") if key not in part.service.data]
    if missing:
        said = f"the query lane without {' and '.join(missing)} may take the whole host's"
        yield part.service.problem("lane-limits", f"{said}: write cpus: 4 and mem_limit: 8g")


RULES: Final[tuple[Rule, ...]] = (weights, caches, shared_memory, lane_limits)
