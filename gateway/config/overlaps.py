"""Two upstreams that are one server: found at start and reload, when names can be resolved.

    same-address  (warning) two host names of the file lead to one address and port

`check` never resolves a name: it must say the same on a laptop as on the node.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from common.problems import Problem, in_order
from gateway.config.config import Config, Deployment, Upstream

Lookup = Callable[[str], Sequence[str]]  # a host's addresses; OSError where there are none


def resolved_overlaps(config: Config, lookup: Lookup) -> tuple[Problem, ...]:
    """One warning for each pair of upstreams that share an address and a port; it names both.

    A host that `lookup` cannot resolve is left to whoever connects to it.
    """
    seen: dict[tuple[str, int], Upstream] = {}
    pairs: dict[tuple[Upstream, Upstream], Problem] = {}
    for deployment in config.deployments:
        upstream = deployment.upstream
        for address in _addresses(upstream, lookup):
            other = seen.setdefault((address, upstream.port), upstream)
            if other != upstream and (other, upstream) not in pairs:
                pairs[other, upstream] = _same_address(deployment, other, address)
    return in_order(pairs.values())


def unresolved(config: Config, lookup: Lookup) -> tuple[Problem, ...]:
    """One warning for each upstream whose host has no address now, at its first deployment."""
    first: dict[Upstream, Deployment] = {}
    for deployment in config.deployments:
        first.setdefault(deployment.upstream, deployment)
    return in_order(
        Problem(
            deployment.place,
            "warning",
            "no-address",
            f"host '{upstream.host}' of '{deployment.group}' has no address here; correct the "
            f"name, or make it resolve: until then this deployment fails",
        )
        for upstream, deployment in first.items()
        if upstream.port != 0 and not _addresses(upstream, lookup)
    )


def _addresses(upstream: Upstream, lookup: Lookup) -> Sequence[str]:
    if upstream.port == 0:  # a provider's own address: the file names none
        return ()
    try:
        return lookup(upstream.host)
    except (OSError, UnicodeError):  # UnicodeError: a label that no host can have
        return ()


def _same_address(deployment: Deployment, other: Upstream, address: str) -> Problem:
    return Problem(
        deployment.place,
        "warning",
        "same-address",
        f"upstreams {other} and {deployment.upstream} are both {address} port {other.port}: one "
        f"server, so isolation between them is not proven; write one host name for both",
    )
