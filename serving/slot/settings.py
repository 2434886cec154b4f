"""The slot file: where it listens, what it may load, by which rules, on what machine.

Read strictly: an unknown key, a wrong type and an unsafe address are problems with their place.
"""

from __future__ import annotations

import difflib
import ipaddress
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Final

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic_core import ErrorDetails

from common.problems import Problem, in_order
from common.source import Source, read_file
from serving.slot.state import Rules

REFERENCE: Final = "os.environ/"
_WANTED: Final[Mapping[str, str]] = {
    "bool_type": "true or false",
    "dict_type": "a mapping",
    "float_type": "a number",
    "greater_than": "a number above 0",
    "greater_than_equal": "a number that is not negative",
    "int_type": "a whole number",
    "list_type": "a list",
    "model_type": "a mapping",
    "string_pattern_mismatch": "small letters, digits, . _ -",
    "string_type": "text",
    "too_short": "a list that is not empty",
}

Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Pause = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class _Block(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class RuleBlock(_Block):
    """`rules`: when a model goes, how long anybody waits, how a failure is tried again.

    state.py explains each; the last two are for single recipes, by id, and win over their files.
    """

    min_residency_s: Pause = 20.0
    max_wait_s: Seconds = 600.0
    max_waiting: Annotated[int, Field(gt=0)] = 64
    drain_s: Pause = 120.0
    stop_grace_s: Seconds = 20.0
    retry_first_s: Seconds = 10.0
    retry_most_s: Seconds = 600.0
    proven_s: Pause = 60.0
    lease_s: Seconds = 30.0
    adopted_grace_s: Pause = 15.0
    unknown_load_s: Pause = 30.0
    come_back: bool = True
    start_timeouts_s: dict[str, Seconds] = {}
    stop_graces_s: dict[str, Seconds] = {}

    def of_slot(self, stop_graces_s: Mapping[str, float]) -> Rules:
        """As the slot takes them; `stop_graces_s` is what the recipes say."""
        given = self.model_dump(exclude={"start_timeouts_s", "stop_graces_s"})
        return Rules(**given, stop_graces_s={**stop_graces_s, **self.stop_graces_s})


class MemoryBlock(_Block):
    """`memory`: how long a start waits for its floor, and when the guard calls memory low."""

    wait_s: Pause = 30.0
    low_gib: Pause = 4.0
    pressure_full: Annotated[float, Field(gt=0, le=100)] = 20.0
    every_s: Seconds = 2.0


class HostBlock(_Block):
    """`host`: what this machine has, as the engines' start commands need it."""

    models: str = "models"
    hf_home: str = ""
    runner: str = "spark-vllm-docker"
    llama_server: str = "llama-server"
    ds4_server: str = "ds4-server"
    docker: str = "docker"
    python: str = ""
    nvidia_smi: str = "nvidia-smi"
    proc: str = "/proc"
    kits: dict[str, str] = {}
    env: dict[str, str] = {}


class _File(_Block):
    slot: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9._-]{0,63}$")]
    listen: str = "127.0.0.1:8767"
    key: str | None = None
    recipes: str | None = None
    enabled: list[str] | None = None
    gpus: list[str] = []
    run: str = "run"
    logs_kept: Annotated[int, Field(gt=0)] = 20
    rules: RuleBlock = RuleBlock()
    memory: MemoryBlock = MemoryBlock()
    host: HostBlock = HostBlock()


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """A slot file that can be served. Paths are relative to the working directory."""

    slot: str
    address: str
    port: int
    key: str | None = field(repr=False)
    key_variable: str | None  # engines do not inherit it
    recipes: Path | None  # None: those of the package
    enabled: tuple[str, ...] | None  # None: every recipe that is no draft
    gpus: tuple[str, ...]  # the UUIDs that must be here; empty: not looked at
    run: Path
    logs_kept: int
    rules: RuleBlock
    memory: MemoryBlock
    host: HostBlock
    source: Source = field(repr=False)

    @property
    def loopback(self) -> bool:
        """Whether only this machine reaches it."""
        return ipaddress.ip_address(self.address).is_loopback

    @property
    def url(self) -> str:
        """Where the commands find it."""
        host = f"[{self.address}]" if ":" in self.address else self.address
        return f"http://{host}:{self.port}"


@dataclass(frozen=True, slots=True)
class Loaded:
    """What came of a slot file: settings where there is no error."""

    settings: Settings | None
    problems: tuple[Problem, ...]


def load(file: str, environ: Mapping[str, str] | None = None) -> Loaded:
    """Read and check the slot file; every problem at once."""
    source = read_file(file)
    if source.problems:
        return Loaded(None, source.problems)
    try:
        given = _File.model_validate(source.data)
    except ValidationError as error:
        return Loaded(None, in_order(_problems(error, source)))
    return _settled(given, source, os.environ if environ is None else environ)


def _settled(given: _File, source: Source, environ: Mapping[str, str]) -> Loaded:
    problems: list[Problem] = []

    def wrong(code: str, *steps: str | int, said: str) -> None:
        problems.append(Problem(source.place(steps), "error", code, said))

    address, port = _address(given.listen)
    key = _key(given.key, environ)
    if address is None:
        wrong("listen", "listen", said=f"`{given.listen}` is no IP:PORT, such as 127.0.0.1:8767")
    elif not ipaddress.ip_address(address).is_loopback and given.key is None:
        wrong(
            "open-without-key",
            "listen",
            said=f"`{given.listen}` can be reached from other machines: set "
            "`key: os.environ/NAME`, or listen on 127.0.0.1",
        )
    if given.key is not None and not given.key.startswith(REFERENCE):
        wrong("key-in-file", "key", said="a key does not stand in a file: os.environ/NAME")
    elif given.key is not None and key is None:
        name = given.key.removeprefix(REFERENCE)
        wrong("unset-variable", "key", said=f"the variable {name} is not set or empty")
    if problems or address is None:
        return Loaded(None, in_order(problems))
    return Loaded(_settings(given, source, (address, port), key), ())


def _settings(given: _File, source: Source, address: tuple[str, int], key: str | None) -> Settings:
    return Settings(
        slot=given.slot,
        address=address[0],
        port=address[1],
        key=key,
        key_variable=given.key.removeprefix(REFERENCE) if given.key else None,
        recipes=None if given.recipes is None else Path(given.recipes),
        enabled=None if given.enabled is None else tuple(given.enabled),
        gpus=tuple(given.gpus),
        run=Path(given.run),
        logs_kept=given.logs_kept,
        rules=given.rules,
        memory=given.memory,
        host=given.host,
        source=source,
    )


def _address(text: str) -> tuple[str | None, int]:
    """127.0.0.1:8767 or [::1]:8767. A name is refused: it may lead anywhere tomorrow."""
    host, _, port = text.rpartition(":")
    try:
        address = ipaddress.ip_address(host.removeprefix("[").removesuffix("]"))
        number = int(port)
    except ValueError:
        return None, 0
    return (str(address), number) if 0 < number < 65536 else (None, 0)


def _key(given: str | None, environ: Mapping[str, str]) -> str | None:
    return environ.get((given or "").removeprefix(REFERENCE)) or None


def _problems(error: ValidationError, source: Source) -> Iterator[Problem]:
    for detail in error.errors(include_url=False):
        steps = tuple(step for step in detail["loc"] if step != "[key]")
        place = source.place(steps)
        if detail["type"] == "extra_forbidden":
            yield Problem(place, "error", "unknown-key", _unknown(steps))
        elif detail["type"] == "missing":
            said = f"`{steps[-1]}` must be there"
            yield Problem(place, "error", "missing-key", said)
        else:
            yield Problem(place, "error", "value", _wanted(steps, detail))


def _wanted(steps: tuple[str | int, ...], detail: ErrorDetails) -> str:
    name = next((str(step) for step in reversed(steps) if isinstance(step, str)), "the file")
    wanted = _WANTED.get(detail["type"], detail["msg"])
    return f"`{name}` must be {wanted}, not {detail['input']!r:.60}"


def _unknown(steps: tuple[str | int, ...]) -> str:
    block: type[BaseModel] = _File
    for step in steps[:-1]:
        inner = block.model_fields[str(step)].annotation
        block = inner if isinstance(inner, type) and issubclass(inner, BaseModel) else block
    near = difflib.get_close_matches(str(steps[-1]), block.model_fields, 1)
    return f"`{steps[-1]}` is no setting" + (f" (did you mean `{near[0]}`?)" if near else "")
