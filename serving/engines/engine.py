"""What an engine is to a slot: a row of facts, and a pure function from recipe to start command."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from serving.recipes.recipe import Recipe

How = Literal["process", "container", "kit"]
Expects = Literal["empty-200", "json-ok", "models"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """Facts of this machine, from the slot's file. Paths are used as they are given."""

    models: str = "models"
    hf_home: str = "hf"
    runner: str = "spark-vllm-docker"  # the folder of eugr's recipe runner
    llama_server: str = "llama-server"
    ds4_server: str = "ds4-server"
    docker: str = "docker"
    kits: Mapping[str, str] = field(default_factory=dict)  # engine -> folder of its kit
    python: str = "python3"
    env: Mapping[str, str] = field(default_factory=dict, repr=False)  # may hold secrets


@dataclass(frozen=True, slots=True, kw_only=True)
class Overrides:
    """What a person asks for this one time; None is what the recipe says."""

    ctx: int | None = None
    kv: str | None = None
    preset: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    """A file or folder without which the start would fail, and what to tell a person then."""

    path: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Mount:
    """A folder of the machine as a container sees it."""

    source: str
    target: str
    read_only: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """Everything about one start. Nothing here has run.

    A process is the engine itself. For a container or a kit `argv` starts it and returns; `stop`
    ends and removes it, in this order (a step fails where there is nothing to stop), and `logs`
    prints what it said. `env` goes over the caller's environment; it may hold secrets.
    """

    argv: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    cwd: str | None = None
    container: str | None = None
    needs: tuple[Need, ...] = ()
    port: int
    stop: tuple[tuple[str, ...], ...] = ()
    logs: tuple[str, ...] | None = None
    names: tuple[str, ...] = ()  # the containers that say this engine is up
    mounts: tuple[Mount, ...] = ()
    ctx: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """How a running engine is found ready: a GET on `path`, and what a good answer is.

    empty-200   status 200 whatever the body
    json-ok     status 200 with `{"status": "ok"}`
    models      status 200 with the served name among `data[].id`
    """

    path: str
    expects: Expects
    models_path: str = "/v1/models"
    ready_timeout_s: float


Start = Callable[[Recipe, Host, Overrides], Launch]


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """One engine. `launch` raises Unusable where the overrides ask for what it cannot do."""

    name: str
    title: str
    how: How
    probe: Probe
    launch: Start
    default_container: str | None
    facts: str
