"""The GPUs that must be here, by UUID: a number may mean another card after a change."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from serving.slot.containers import Docker, DockerFailed

_UUID: Final = re.compile(r"UUID: ((?:GPU|MIG)-[\w-]+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What came of the look: which of the wanted cards are not here; `said` if nobody can know."""

    missing: tuple[str, ...] = ()
    said: str = ""


async def look(wanted: Sequence[str], nvidia_smi: str) -> Seen:
    """Hold the wanted UUIDs against those that the driver sees."""
    if not wanted:
        return Seen(said="no GPU is named in the slot file: none is looked for")
    try:
        text = await Docker(program=nvidia_smi).call("-L")
    except FileNotFoundError:
        return Seen(said=f"the GPUs are not checked: there is no {nvidia_smi}")
    except DockerFailed as error:
        return Seen(said=f"the GPUs are not checked: {error}")
    here = _UUID.findall(text)
    return Seen(missing=tuple(uuid for uuid in wanted if uuid not in here))


def variables(wanted: Sequence[str]) -> dict[str, str]:
    """What keeps a process of this machine on these cards."""
    if not wanted:
        return {}
    return {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": ",".join(wanted)}
