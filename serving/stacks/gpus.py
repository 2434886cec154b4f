"""Which GPUs a service takes: by CDI name, reservation, `gpus:`, or the variable of the runtime."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from serving.stacks.compose import Service

CDI: Final = re.compile(r"([\w.-]+\.[\w.-]+/[\w.-]+)=(.+)")
_NO_GPU: Final = frozenset({"", "none", "void"})

Way = Literal["cdi", "reservation", "gpus", "runtime"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """One demand for GPUs: by id, or the first `count`, or all of them."""

    way: Way
    path: tuple[str | int, ...]  # within the service
    ids: tuple[str, ...] = ()
    count: int | None = None
    all: bool = False
    given: Mapping[str, Any] | None = None  # a reservation as it is written


def taken(service: Service) -> tuple[Taken, ...]:
    """Every demand for NVIDIA GPUs that a service makes."""
    return (*_devices(service), *_reservations(service), *_gpus(service), *_runtime(service))


def ids(service: Service) -> frozenset[str]:
    """The GPUs a service names, by number or UUID."""
    return frozenset(i for demand in taken(service) for i in demand.ids)


def _devices(service: Service) -> Iterator[Taken]:
    given = service.data.get("devices")
    for index, item in enumerate(given if isinstance(given, list) else ()):
        name = item.get("source") if isinstance(item, Mapping) else item
        found = CDI.fullmatch(str(name or ""))
        if found and found[1] == "nvidia.com/gpu":
            every = found[2] == "all"
            ids = () if every else (found[2],)
            yield Taken(way="cdi", path=("devices", index), ids=ids, all=every)


def _reservations(service: Service) -> Iterator[Taken]:
    here: Any = service.data
    path = ("deploy", "resources", "reservations", "devices")
    for step in path:
        here = here.get(step) if isinstance(here, Mapping) else None
    for index, item in enumerate(here if isinstance(here, list) else ()):
        if isinstance(item, Mapping) and _is_nvidia(item):
            yield _reserved(item, (*path, index), "reservation")


def _gpus(service: Service) -> Iterator[Taken]:
    given = service.data.get("gpus")
    if given == "all":
        yield Taken(way="gpus", path=("gpus",), all=True)
    elif str(given).isdigit():
        yield Taken(way="gpus", path=("gpus",), count=int(str(given)))
    for index, item in enumerate(given if isinstance(given, list) else ()):
        if isinstance(item, Mapping):
            yield _reserved(item, ("gpus", index), "gpus")


def _runtime(service: Service) -> Iterator[Taken]:
    """`runtime: nvidia`: the variable chooses, and without it the image does (all)."""
    if service.data.get("runtime") != "nvidia":
        return
    if any((*_devices(service), *_reservations(service), *_gpus(service))):
        return  # the rules of visible devices speak of both at once
    text = service.env("NVIDIA_VISIBLE_DEVICES")
    path = ("environment", "NVIDIA_VISIBLE_DEVICES") if text is not None else ("runtime",)
    names = numbers(text)
    if text is None or text == "all":
        yield Taken(way="runtime", path=path, all=True)
    elif names:
        yield Taken(way="runtime", path=path, ids=names)


def numbers(text: str | None) -> tuple[str, ...]:
    """The names in a list of visible devices; empty for all of them or none."""
    if text is None or text.strip() in _NO_GPU or text.strip() == "all":
        return ()
    return tuple(part.strip() for part in text.split(",") if part.strip())


def _is_nvidia(item: Mapping[str, Any]) -> bool:
    capabilities = item.get("capabilities")
    names = capabilities if isinstance(capabilities, list) else []
    other = [n for n in names if str(n).lower() in ("tpu", "amd")]
    return item.get("driver", "nvidia") in ("nvidia", "cdi", "") and not other


def _reserved(item: Mapping[str, Any], path: tuple[str | int, ...], way: Way) -> Taken:
    given, count = item.get("device_ids"), item.get("count")
    ids = tuple(str(i) for i in given) if isinstance(given, list) else ()
    names = tuple(found[2] if (found := CDI.fullmatch(i)) else i for i in ids)
    text = str(count).strip() if count is not None else ""
    number = int(text) if text.lstrip("-").isdigit() else None
    every = "all" in names or (not ids and (not text or text == "all" or number == -1))
    return Taken(
        way=way,
        path=path,
        ids=() if every else names,
        count=None if every else number,
        all=every,
        given=item,
    )
