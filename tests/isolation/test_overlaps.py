"""Upstreams that turn out to be one server when names are resolved, at start and reload."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gateway.config.config import Config
from gateway.config.isolation import resolved_overlaps
from gateway.config.overlaps import Lookup, unresolved
from tests.isolation.build import config, member


def names_of(addresses: Mapping[str, Sequence[str]]) -> Lookup:
    """A lookup that knows these hosts and fails on any other, as a resolver does."""

    def lookup(host: str) -> Sequence[str]:
        if host not in addresses:
            raise OSError(f"no address for {host}")
        return addresses[host]

    return lookup


def two(first: str, second: str) -> Config:
    """People at the first upstream, jobs at the second."""
    return config(
        member("chat", first),
        member("jobs", second),
        tiers={"chat": "interactive", "jobs": "background"},
    )


def test_two_host_names_with_one_address_and_port_are_a_warning_that_names_both() -> None:
    lookup = names_of({"gpu-1": ["10.0.0.5", "fd00::5"], "box": ["10.0.0.5", "fd00::5"]})

    found = resolved_overlaps(two("gpu-1:8000", "box:8000"), lookup)

    assert [(p.code, p.severity, p.place.line) for p in found] == [("same-address", "warning", 20)]
    assert "gpu-1:8000 and box:8000 are both 10.0.0.5 port 8000" in found[0].message


def test_one_address_with_two_ports_is_two_servers() -> None:
    lookup = names_of({"gpu-1": ["10.0.0.5"], "box": ["10.0.0.5"]})

    assert resolved_overlaps(two("gpu-1:8000", "box:8001"), lookup) == ()


def test_a_name_that_does_not_resolve_is_told_apart_from_an_overlap() -> None:
    made = two("gpu-1:8000", "nowhere:8000")
    lookup = names_of({"gpu-1": ["10.0.0.5"]})

    assert resolved_overlaps(made, lookup) == ()
    found = unresolved(made, lookup)

    assert [(p.code, p.place.line) for p in found] == [("no-address", 20)]
    assert "'nowhere'" in found[0].message
