"""What the rules look at: a service with its engine, its GPUs and its ports, read once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from common.problems import Problem
from serving.stacks import gpus, ports
from serving.stacks.compose import Service, Stack
from serving.stacks.gpus import Taken
from serving.stacks.launch import Launch, is_gateway, is_query_lane, launch
from serving.stacks.ports import Port


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One service as the rules see it."""

    service: Service
    launch: Launch | None  # the engine it starts
    gpus: tuple[Taken, ...]
    ports: tuple[Port, ...]
    production: bool
    query_lane: bool  # this project's embedding server
    gateway: bool  # this project's gateway
    drain_s: float = 30.0  # how long a stop waits for answers: the routing file's, or its default

    @property
    def serves(self) -> bool:
        """True for what people's requests reach: an engine, the query lane, the gateway."""
        return self.launch is not None or self.query_lane or self.gateway

    @property
    def gpu_ids(self) -> frozenset[str]:
        return frozenset(i for demand in self.gpus for i in demand.ids)


Rule = Callable[[Part], Iterator[Problem]]


def parts(stack: Stack, *, production: bool = False) -> tuple[Part, ...]:
    """The services of a stack, ready for the rules."""
    return tuple(_part(service, production or stack.production) for service in stack.services)


def _part(service: Service, production: bool) -> Part:
    return Part(
        service=service,
        launch=launch(service),
        gpus=gpus.taken(service),
        ports=ports.published(service),
        production=production,
        query_lane=is_query_lane(service),
        gateway=is_gateway(service),
    )
