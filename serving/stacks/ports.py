"""The ports a service publishes, out of the short and the long form."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from serving.stacks.compose import Service

ANY: Final = frozenset({"", "0.0.0.0", "::", "[::]", "*"})  # noqa: S104 - what the rule looks for
_SHORT: Final = re.compile(
    r"(?:(?P<host>\[[^\]]*\]|[^:]*):)?(?:(?P<published>[\d-]*):)?(?P<target>[\d-]+)(?:/(?P<kind>\w+))?"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Port:
    """One published port; `host` is empty where it is every address."""

    path: tuple[str | int, ...]  # within the service
    host: str
    published: int | None  # None: any free one, or a range
    target: int | None

    @property
    def open(self) -> bool:
        """True if every address of the machine listens."""
        return self.host in ANY


def published(service: Service) -> tuple[Port, ...]:
    """What a service publishes over TCP; none on the host's own network."""
    return tuple(_published(service))


def on_host(service: Service) -> bool:
    """True if the container has the host's network, where every port is published."""
    return service.data.get("network_mode") == "host"


def _published(service: Service) -> Iterator[Port]:
    given = service.data.get("ports")
    if on_host(service):
        return
    for index, item in enumerate(given if isinstance(given, list) else ()):
        path = ("ports", index)
        if isinstance(item, Mapping):
            host = str(item.get("host_ip") or "")
            ports = (_number(item.get("published")), _number(item.get("target")))
            yield Port(path=path, host=host, published=ports[0], target=ports[1])
        elif (found := _SHORT.fullmatch(str(item))) and found["kind"] != "udp":
            yield _short(found, path)


def _short(found: re.Match[str], path: tuple[str | int, ...]) -> Port:
    host, middle = found["host"], found["published"]
    if middle is None:  # `8000:8000` or `8000`: what stands first is a port
        host, middle = None, host
    return Port(
        path=path,
        host=(host or "").strip("[]"),
        published=_number(middle),
        target=_number(found["target"]),
    )


def _number(given: object) -> int | None:
    text = str(given)
    return int(text) if text.isdigit() else None
