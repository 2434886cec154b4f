"""Services that run together: GPUs, ports and caches that two of them want, and who waits for whom.

`x-slot` names a set of GPUs that holds one service at a time: two services of one slot never run
together. A service under a profile is started on demand, beside those that always run.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from typing import Final

from common.problems import Problem
from serving.stacks.part import Part
from serving.stacks.ports import ANY
from serving.stacks.rules.health import has_check
from serving.stacks.rules.storage import mounts

MEMORY: Final = 0.98  # of a GPU; the rest is for the contexts of the processes


def apart(one: Part, other: Part) -> bool:
    """True if the two never run at one time."""
    return one.service.slot is not None and one.service.slot == other.service.slot


def shared_gpus(parts: Sequence[Part]) -> Iterator[Problem]:
    """A GPU for two services that always run; or for more memory than it has."""
    for one, other in combinations(parts, 2):
        both = _overlap(one, other)
        on_demand = one.service.on_demand or other.service.on_demand
        if both and not apart(one, other) and not on_demand:
            said = f"{both} is also for {_who(one)}, which runs at the same time: give each its"
            said += " own, or one x-slot if only one of them runs"
            yield other.service.problem("gpu-shared", said, *other.gpus[0].path)
    for gpu in sorted({g for part in parts for g in part.gpu_ids}):
        yield from _memory(gpu, [p for p in parts if gpu in p.gpu_ids])


def _overlap(one: Part, other: Part) -> str:
    """The GPUs that both take, in words; nothing where they take none in common."""
    if both := one.gpu_ids & other.gpu_ids:
        return f"GPU {', '.join(sorted(both))}"
    if not (one.launch and other.launch and one.gpus and other.gpus):
        return ""
    named = [_first(part) | part.gpu_ids for part in (one, other)]
    everything = any(demand.all for part in (one, other) for demand in part.gpus)
    if everything or named[0] & named[1]:
        return "what it takes (all GPUs, or the first by count)"
    return ""


def _first(part: Part) -> frozenset[str]:
    """What docker gives to a demand by count: the first ones, to everyone."""
    most = max((demand.count or 0 for demand in part.gpus if not demand.ids), default=0)
    return frozenset(str(number) for number in range(most))


def _memory(gpu: str, users: Sequence[Part]) -> Iterator[Problem]:
    demanded = [p for p in users if p.service.on_demand]
    if not demanded or len(users) < 2:
        return
    shares = [(p, _share(p)) for p in users]
    unknown = [p for p, share in shares if share is None]
    total = sum(_by_slot([(p, share) for p, share in shares if share is not None]))
    last = demanded[-1]
    if unknown:
        said = f"GPU {gpu} is shared with services on demand, and nothing says how much of its"
        said += " memory this one takes: write x-gpu-memory, a share of 1"
        yield unknown[0].service.problem("gpu-memory", said, *unknown[0].gpus[0].path)
    elif total > MEMORY:
        names = ", ".join(f"{p.service.name} {share:g}" for p, share in shares)
        said = f"GPU {gpu} is promised {total:.2f} of its memory ({names}): at most {MEMORY}"
        yield last.service.problem("gpu-memory", said, *last.gpus[0].path)


def _by_slot(shares: Sequence[tuple[Part, float]]) -> Iterator[float]:
    """One share a service; of one slot only the largest, as its services never run together."""
    slots: dict[str, float] = {}
    for part, share in shares:
        if part.service.slot is None:
            yield share
        else:
            slots[part.service.slot] = max(share, slots.get(part.service.slot, 0.0))
    yield from slots.values()


def _share(part: Part) -> float | None:
    return part.launch.memory(part.service) if part.launch else None


def shared_ports(parts: Sequence[Part]) -> Iterator[Problem]:
    """One address and port for two services that run together."""
    for one, other in combinations(parts, 2):
        taken = {(p.host, p.published) for p in one.ports if p.published}
        for port in other.ports:
            open_too = any(port.published == n and (port.open or h in ANY) for h, n in taken)
            same = (port.host, port.published) in taken or open_too
            if same and not apart(one, other):
                said = f"port {port.published} is also published by {_who(one)}"
                yield other.service.problem("port-taken", said, *port.path)


def shared_caches(parts: Sequence[Part]) -> Iterator[Problem]:
    """One cache of compiled code for two stacks: two releases write over each other."""
    for one, other in combinations([p for p in parts if p.launch], 2):
        if apart(one, other):
            continue
        theirs = {_place(one, m.source): m for m in mounts(one) if m.cache and not m.read_only}
        for mount in mounts(other):
            # Weights in one store are the same for two services of one stack; compiled code is not.
            store = "huggingface" in mount.target and one.service.file == other.service.file
            shared = mount.cache and not mount.read_only and not store
            if shared and _place(other, mount.source) in theirs:
                said = (
                    f"its cache {mount.source} is also for {_who(one)}: give each a path of its own"
                )
                yield other.service.problem("cache-shared", said, "volumes", mount.index)


def _place(part: Part, source: str) -> str:
    """A path beside the file, or a named volume of it, is another one beside another file."""
    folder = part.service.file.rpartition("/")[0] if source.startswith(".") else part.service.file
    return source if source.startswith(("/", "~", "$")) else f"{folder}:{source}"


def dependents(parts: Sequence[Part]) -> Iterator[Problem]:
    """Who waits for an engine must wait until it answers, not until it began to load."""
    for part in parts:
        given = part.service.data.get("depends_on")
        for name, condition, path in _depended(given):
            target = next((p for p in parts if _same(part, p, name)), None)
            if target is None or not _loads(target):
                continue
            if condition == "service_started":
                said = f"it starts when {name} has started, before {name} answers: write"
                said += " condition: service_healthy"
                yield part.service.problem("depends-started", said, *path)
            elif condition == "service_healthy" and not has_check(target):
                said = f"it waits for {name} to be healthy, and {name} has no healthcheck"
                yield part.service.problem("depends-no-health", said, *path)


def _loads(part: Part) -> bool:
    """True for what has a process long before it has an answer."""
    return part.query_lane or (part.launch is not None and not part.launch.engine.lazy)


def _depended(given: object) -> Iterator[tuple[str, str, tuple[str | int, ...]]]:
    if isinstance(given, list):
        for index, name in enumerate(given):
            yield str(name), "service_started", ("depends_on", index)
    for name, item in given.items() if isinstance(given, Mapping) else ():
        said = item.get("condition") if isinstance(item, Mapping) else None
        yield str(name), str(said or "service_started"), ("depends_on", name)


def _same(part: Part, other: Part, name: str) -> bool:
    return other.service.name == name and other.service.source is part.service.source


def _who(part: Part) -> str:
    return f"service '{part.service.name}' ({part.service.place()})"
