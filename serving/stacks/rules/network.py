"""Addresses: engines listen where the gateway finds them, and nowhere else."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from common.problems import Problem
from serving.stacks.part import Part, Rule
from serving.stacks.ports import ANY, on_host

_ADVICE: Final = "docker opens it past the host's firewall; write the LAN address before it"


def public_port(part: Part) -> Iterator[Problem]:
    """A port that every address of the machine publishes."""
    for port in part.ports:
        if port.open and part.serves:
            written = port.published or 8000
            named = f"port {port.published}" if port.published else "a port of docker's choice"
            said = f"{named} is published on every address: {_ADVICE},"
            said += f' such as "${{LAN_IP:?}}:{written}:{port.target}"'
            yield part.service.problem("public-port", said, *port.path)


def public_host(part: Part) -> Iterator[Problem]:
    """On the host's own network the engine's own address is what is published."""
    if part.launch and on_host(part.service) and part.launch.host in ANY:
        said = f"network_mode host, and it listens on {part.launch.host}, every address of the"
        said += " machine: give it the LAN address with --host"
        yield part.service.problem("public-host", said, "network_mode")


def unserved_port(part: Part) -> Iterator[Problem]:
    """A published port behind which nothing listens."""
    launch = part.launch
    targets = [port for port in part.ports if port.target is not None]
    if launch and launch.known and targets and all(port.target != launch.port for port in targets):
        said = f"it publishes container port {targets[0].target}, but {launch.engine.name} listens"
        said += f" on {launch.port}: make them one"
        yield part.service.problem("port-unserved", said, *targets[0].path)


RULES: Final[tuple[Rule, ...]] = (public_port, public_host, unserved_port)
