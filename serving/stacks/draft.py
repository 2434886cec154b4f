"""The draft profile of adaptive speculation: a JSON file that the engine reads at its start.

Batch sizes are keys, each with the numbers of draft steps it may choose between. A profile that is
not mounted, or asks for more steps than the engine was started with, fails after the weights are
loaded: ten minutes too late.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from common.problems import Problem
from serving.stacks.compose import TEMPLATE
from serving.stacks.part import Part
from serving.stacks.rules.storage import mounts

_SMOOTHING: Final = frozenset({"ema_alpha", "warmup_batches", "update_interval"})
_NUMBERS: Final = ("up_hysteresis", "down_hysteresis", "ceiling_coeff")
_KNOWN: Final = frozenset({"candidate_steps", *_NUMBERS, "max_running_requests"})


def draft_profile(part: Part) -> Iterator[Problem]:
    """What is wrong with the profile that this service's engine reads, if it reads one."""
    launch = part.launch
    inside = launch.words.first("--speculative-adaptive-config") if launch else None
    if not launch or not inside:
        return
    mount = next((m for m in mounts(part) if m.target == inside), None)
    if mount is None:
        said = f"the draft profile {inside} is not mounted"
        yield part.service.problem("draft-profile", said, "command")
        return
    file = Path(part.service.file).parent / mount.source
    steps = launch.words.number("--speculative-num-steps")
    for said in _faults(file, steps):
        yield part.service.problem("draft-profile", said, "volumes", mount.index)


def _faults(file: Path, steps: int | None) -> Iterator[str]:
    template = next((p for p in _templates(file) if p.is_file()), None)
    if template is None:
        yield f"there is no draft profile {file.name} beside the file: docker would make a folder"
        return
    try:
        given = json.loads(template.read_text(encoding="utf-8"))
    except ValueError as error:
        yield f"{template.name} is not JSON: {error}"
        return
    if not isinstance(given, dict) or not any(str(key).isdigit() for key in given):
        yield f'{template.name} has no batch size as a key, such as "1"'
        return
    for key, entry in given.items():
        if key not in _SMOOTHING:
            yield from (f"{template.name}: {said}" for said in _entry(key, entry, steps))


def _templates(file: Path) -> Iterator[Path]:
    """The file, or the template it is copied from: x.json.example or x.example.json."""
    yield file
    yield file.with_name(file.name + TEMPLATE)
    yield file.with_name(f"{file.stem}{TEMPLATE}{file.suffix}")


def _entry(key: str, entry: Any, steps: int | None) -> Iterator[str]:
    if not key.isdigit():
        yield f"`{key}` is neither a batch size nor one of {', '.join(sorted(_SMOOTHING))}"
        return
    if not isinstance(entry, Mapping):
        yield f"batch size {key} must be a mapping with candidate_steps"
        return
    candidates = entry.get("candidate_steps")
    if not isinstance(candidates, list) or not all(_whole(n) for n in candidates) or not candidates:
        yield f"batch size {key}: candidate_steps must be whole numbers, such as [3, 5]"
    elif steps is not None and max(candidates) > steps:
        yield (
            f"batch size {key} may choose {max(candidates)} steps, and --speculative-num-steps is"
            f" {steps}"
        )
    yield from (f"batch size {key}: `{name}` is not known" for name in sorted(set(entry) - _KNOWN))
    for name in _NUMBERS:
        if not isinstance(entry.get(name, 0), int | float):
            yield f"batch size {key}: {name} must be a number"


def _whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0
