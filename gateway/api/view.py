"""What the API shows of the gateway: a Protocol that `server.py` fulfils with the live one."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, Protocol

from common.problems import Problem
from gateway.config.config import Config
from gateway.keys import Client
from gateway.records.metrics import Metrics
from gateway.records.state import NowState
from gateway.records.usage import Usage
from gateway.routing.table import RouteTable

Phase = Literal["starting", "ready", "draining"]


class View(Protocol):
    """The gateway as it is now. Read anew for each request: a reload swaps config and table."""

    @property
    def config(self) -> Config: ...

    @property
    def table(self) -> RouteTable: ...

    @property
    def loaded_at(self) -> float:
        """When this revision was loaded, in seconds since 1970."""
        ...

    @property
    def phase(self) -> Phase: ...

    @property
    def rejected(self) -> tuple[Problem, ...]:
        """What is wrong with the file as it is now on disk; empty while it is the one served."""
        ...

    @property
    def records_lost(self) -> int: ...

    @property
    def usage(self) -> Usage: ...

    @property
    def metrics(self) -> Metrics: ...

    def now(self) -> NowState:
        """Every deployment's state at this moment."""
        ...

    def identify(self, headers: Iterable[tuple[bytes, bytes]]) -> Client:
        """The caller. Raises a GatewayError without a known key; counting it is the gate's."""
        ...
