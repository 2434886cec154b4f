"""What the gateway knows of a deployment at one moment, as status pages and metrics show it."""

from __future__ import annotations

from dataclasses import dataclass

from gateway.config.config import TierName


@dataclass(frozen=True, slots=True, kw_only=True)
class DeploymentState:
    """One deployment now. Windows are the last 60 seconds."""

    id: str
    group: str
    tier: TierName
    in_flight: int = 0
    rpm_used: int = 0
    tpm_used: int = 0
    rests_s: float | None = None  # seconds left of its rest; None: it may serve


@dataclass(frozen=True, slots=True, kw_only=True)
class NowState:
    """Every deployment now, and how many requests wait in each group's queue."""

    deployments: tuple[DeploymentState, ...] = ()
    waiting: tuple[tuple[str, int], ...] = ()  # model group, requests
    leases: int = 0  # of slots, held
    leases_lost: int = 0  # so far: the control plane no longer knew them
