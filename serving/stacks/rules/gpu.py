"""GPUs: named, counted once, and the same inside the container as outside."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from common.problems import Problem
from serving.stacks.gpus import CDI, Taken, numbers
from serving.stacks.part import Part, Rule

_VISIBLE: Final = ("CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES")
_UUID: Final = re.compile(r"(GPU|MIG)-")
_INDEX: Final = re.compile(r"\d+(:\d+)?")
_ADVICE: Final = "name them: `devices: [nvidia.com/gpu=0]`, one line a GPU"


def everything_and_visible(part: Part) -> Iterator[Problem]:
    """All GPUs, or a count of them, narrowed by a variable: the container counts from 0 again."""
    for name in _VISIBLE:
        chosen = [n for n in numbers(part.service.env(name)) if not _UUID.match(n)]
        for demand in part.gpus:
            if chosen and not demand.ids and demand.way != "runtime":
                said = f"{_words(demand)} and {name}={','.join(chosen)}: inside, cards are counted"
                said += " anew from 0, by CUDA the fastest first, so the number may mean another"
                said += f" card; {_ADVICE}, and leave {name} out"
                yield part.service.problem("gpu-all-visible", said, *_env_path(part, name))


def _words(demand: Taken) -> str:
    if demand.all:
        return "all GPUs"
    return f"{_cards(demand.count or 0)} of docker's choice"


def _cards(count: int) -> str:
    return "one GPU" if count == 1 else f"{count} GPUs"


def visible_inside(part: Part) -> Iterator[Problem]:
    """Named GPUs are 0, 1, ... inside, whatever their numbers outside."""
    named = {i for demand in part.gpus for i in demand.ids if demand.way != "runtime"}
    if not named or any(not demand.ids for demand in part.gpus):
        return
    for name in _VISIBLE:
        chosen = [n for n in numbers(part.service.env(name)) if _INDEX.fullmatch(n)]
        beyond = [n for n in chosen if int(n.partition(":")[0]) >= len(named)]
        if beyond:
            said = f"{name}={','.join(chosen)}, but its {len(named)} GPUs are counted from 0"
            said += f" inside: there is no {beyond[0]}; leave {name} out"
            yield part.service.problem("gpu-visible-inside", said, *_env_path(part, name))


def order(part: Part) -> Iterator[Problem]:
    """CUDA counts the fastest card first, unless it is told to count by bus."""
    chosen = numbers(part.service.env("CUDA_VISIBLE_DEVICES"))
    several = sum(len(d.ids) for d in part.gpus) > 1 or any(d.way == "runtime" for d in part.gpus)
    by_number = any(_INDEX.fullmatch(n) for n in chosen)
    if by_number and several and part.service.env("CUDA_DEVICE_ORDER") != "PCI_BUS_ID":
        said = f"CUDA_VISIBLE_DEVICES={','.join(chosen)} counts the fastest card first where cards"
        said += " differ: name GPUs by device id or UUID, or add CUDA_DEVICE_ORDER=PCI_BUS_ID"
        path = _env_path(part, "CUDA_VISIBLE_DEVICES")
        yield part.service.problem("gpu-order", said, *path)


def all_of_them(part: Part) -> Iterator[Problem]:
    """An engine with every GPU leaves none that is surely free for another."""
    for demand in part.gpus:
        if demand.all and part.launch:
            said = f"it takes every GPU there is; {_ADVICE}"
            yield part.service.problem("gpu-all", said, *demand.path)
        elif demand.count and part.launch and not demand.ids:
            said = f"everyone who asks by count gets the same: {_cards(demand.count)}, counted from"
            said += f" the first; {_ADVICE}"
            yield part.service.problem("gpu-count", said, *demand.path)


def reservation(part: Part) -> Iterator[Problem]:
    """A reservation that docker refuses, or reads otherwise than it looks."""
    for demand in part.gpus:
        given = demand.given
        if given is None:
            continue
        if "device_ids" in given and "count" in given:
            said = "both count and device_ids: docker refuses that; keep device_ids"
            yield part.service.problem("gpu-count-and-ids", said, *demand.path, "count")
        if not given.get("capabilities"):
            said = "a reservation without capabilities: docker refuses it; add"
            yield part.service.problem(
                "gpu-capabilities", f"{said} `capabilities: [gpu]`", *demand.path
            )
        yield from _ids(part, demand)


def _ids(part: Part, demand: Taken) -> Iterator[Problem]:
    given = demand.given or {}
    listed = given.get("device_ids")
    if listed is not None and not isinstance(listed, list):
        said = f"device_ids must be a list of strings, not `{listed}`: write ['0']"
        yield part.service.problem("gpu-ids", said, *demand.path, "device_ids")
    for index, item in enumerate(listed if isinstance(listed, list) else ()):
        path = (*demand.path, "device_ids", index)
        if not isinstance(item, str):
            said = f"device id {item} is a number, and docker takes strings: write '{item}'"
            yield part.service.problem("gpu-ids", said, *path)
        elif given.get("driver") == "cdi" and not CDI.fullmatch(item):
            said = f"driver cdi takes names such as nvidia.com/gpu=0, not `{item}`"
            yield part.service.problem("gpu-name", said, *path)
        elif "," in item:
            said = f"`{item}` is one id: write each GPU as an item of its own"
            yield part.service.problem("gpu-ids", said, *path)


def names(part: Part) -> Iterator[Problem]:
    """A name that no GPU can have: an empty one, or braces that nothing fills in."""
    listed = part.service.data.get("devices")
    for index, item in enumerate(listed if isinstance(listed, list) else ()):
        if isinstance(item, str) and item.startswith("nvidia.com/gpu"):
            name = item.removeprefix("nvidia.com/gpu").removeprefix("=")
            if not _good(name):
                said = f"`{item}` names no GPU: write nvidia.com/gpu=0, or a UUID"
                yield part.service.problem("gpu-name", said, "devices", index)
    for demand in part.gpus:
        bad = [i for i in demand.ids if not _good(i) and "," not in i]
        if bad and demand.way != "cdi":
            said = f"`{bad[0]}` names no GPU: write its number or UUID"
            yield part.service.problem("gpu-name", said, *demand.path, "device_ids")


def _good(name: str) -> bool:
    return name == "all" or bool(_INDEX.fullmatch(name) or _UUID.match(name))


def enough(part: Part) -> Iterator[Problem]:
    """Fewer named GPUs than the engine has ranks."""
    if part.launch is None or not part.gpu_ids or any(not d.ids for d in part.gpus):
        return
    ranks, named = part.launch.ranks, len(part.gpu_ids)
    if ranks > named and not part.launch.words.has("--nnodes", "--headless"):
        said = f"its flags ask for {ranks} GPUs (tensor times pipeline parallel), it has {named}"
        yield part.service.problem("gpu-too-few", said, *part.gpus[0].path)


def _env_path(part: Part, name: str) -> tuple[str | int, ...]:
    """The way to a variable in either form of `environment`."""
    given = part.service.data.get("environment")
    for index, item in enumerate(given if isinstance(given, list) else ()):
        if str(item).partition("=")[0] == name:
            return ("environment", index)
    return ("environment", name)


RULES: Final[tuple[Rule, ...]] = (
    everything_and_visible,
    visible_inside,
    order,
    all_of_them,
    reservation,
    names,
    enough,
)
