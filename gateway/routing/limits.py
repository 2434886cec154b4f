"""Limits: permits for `max_parallel_requests`, `rpm` and `tpm`, exact over any 60 seconds.

A permit is the right to run one request on a deployment. It is taken before an attempt is sent and
given back exactly once. `rpm` counts attempts; `tpm` reserves an estimate and settles it with the
engine's usage. The caller gives the time; counts live by deployment id and so outlive a reload, and
they are kept where no cap asks for them too: one that a reload adds holds at once.
"""

from __future__ import annotations

from gateway.config.config import Deployment
from gateway.routing.window import Reserved, Window


class Permit:
    """The right to run one request on one deployment."""

    __slots__ = ("_reserved", "_use", "deployment")

    def __init__(self, deployment: Deployment, use: Window, reserved: Reserved) -> None:
        self.deployment = deployment
        self._use: Window | None = use
        self._reserved = reserved

    def give_back(self, used_tokens: int | None = None) -> bool:
        """Give it back, settling the reservation; False if that was done before."""
        use, self._use = self._use, None
        if use is None:
            return False
        use.in_flight -= 1
        # A reservation that has left the window took its count along. A mark says so: to look for
        # it among the others would cost each request the length of its minute.
        reserved = self._reserved
        if used_tokens is not None and not reserved.left:
            use.tokens += used_tokens - reserved.tokens
            reserved.tokens = used_tokens
        return True


class Limits:
    """Who runs what, and how much each deployment's minute has left."""

    def __init__(self) -> None:
        self._windows: dict[str, Window] = {}

    def take(self, deployment: Deployment, now: float, tokens: int) -> Permit | None:
        """A permit, or None while the deployment is at one of its caps."""
        use = self._windows.get(deployment.id)
        if use is None:
            use = self._windows[deployment.id] = Window()
        if use.opens_in(deployment, now, tokens) is not None:
            return None
        use.in_flight += 1
        reserved = Reserved(now, tokens)
        use.calls.append(now)
        use.reserved.append(reserved)
        use.tokens += tokens
        if deployment.rpm is None and deployment.tpm is None:
            use.bound()
        return Permit(deployment, use, reserved)

    def opens_in(self, deployment: Deployment, now: float, tokens: int) -> float | None:
        """None if a permit is free; else seconds until its window opens.

        Infinite if it is only full: then a permit given back opens it.
        """
        return (self._windows.get(deployment.id) or Window()).opens_in(deployment, now, tokens)

    def use(self, deployment_id: str, now: float) -> Window:
        """What runs and counts now; without a cap, of the last `MOST_KEPT` attempts."""
        window = self._windows.get(deployment_id) or Window()
        window.forget(now)
        return window
