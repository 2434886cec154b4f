"""The slot as plain data and back, so that it survives the control plane."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec

from serving.slot.state import Slot


def plain(slot: Slot) -> dict[str, Any]:
    """The slot as JSON's own types."""
    data: dict[str, Any] = msgspec.to_builtins(slot)
    return data


def restored(data: object) -> Slot:
    """The slot of an earlier process, before anybody has looked what runs.

    Who waited has gone with that process; leases, promises, wishes and failures are kept. The
    slot's clock goes on where it stopped. Data that is no slot is a ValueError.
    """
    try:
        slot = msgspec.convert(data, Slot)
    except msgspec.ValidationError as error:
        raise ValueError(f"no slot: {error}") from error
    return replace(slot, waiters=(), looked=False, seen=None)
