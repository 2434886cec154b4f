"""Which engine a service starts, and what its flags say: one row an engine, data before code."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from serving.stacks import gpus, words
from serving.stacks.compose import Service, Value
from serving.stacks.words import Words

EngineName = Literal["vllm", "sglang", "llama.cpp", "tei", "ollama"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """How one engine is known and asked. Flags are all the spellings of one setting."""

    name: EngineName
    command: re.Pattern[str]
    image: re.Pattern[str]
    port: int  # where it listens when nothing says else
    open_host: bool  # whether it listens on every address when nothing says else
    host_flags: tuple[str, ...] = ("--host",)
    port_flags: tuple[str, ...] = ("--port",)
    model: tuple[str, ...] = ("--model", "--model-path")
    served: tuple[str, ...] = ("--served-model-name",)
    context: tuple[str, ...] = ()
    requests: tuple[str, ...] = ()
    parallel: tuple[str, ...] = ()  # tensor parallel
    stages: tuple[str, ...] = ()  # pipeline parallel
    memory: tuple[str, ...] = ()  # share of a GPU's memory
    key_flags: tuple[str, ...] = ("--api-key",)
    key_variable: str | None = None  # holds its key, so that no argument need
    any_name: bool = False  # answers to every model name
    lazy: bool = False  # answers at once, and loads a model when it is first asked for
    variables: tuple[tuple[str, str], ...] = ()  # settings by variable: variable, flag


ENGINES: Final[tuple[Engine, ...]] = (
    Engine(
        name="vllm",
        command=re.compile(r"\bvllm serve\b|vllm\.entrypoints\."),
        image=re.compile(r"vllm"),
        port=8000,
        open_host=True,
        context=("--max-model-len",),
        requests=("--max-num-seqs",),
        parallel=("--tensor-parallel-size", "-tp"),
        stages=("--pipeline-parallel-size", "-pp"),
        memory=("--gpu-memory-utilization",),
        key_variable="VLLM_API_KEY",
    ),
    Engine(
        name="sglang",
        command=re.compile(r"\bsglang serve\b|sglang\.launch_server"),
        image=re.compile(r"sglang"),
        port=30000,
        open_host=False,
        context=("--context-length",),
        requests=("--max-running-requests",),
        parallel=("--tp", "--tp-size", "--tensor-parallel-size"),
        stages=("--pp", "--pp-size", "--pipeline-parallel-size"),
        memory=("--mem-fraction-static",),
        any_name=True,
    ),
    Engine(
        name="llama.cpp",
        command=re.compile(r"llama-server\b|llama_cpp\.server"),
        image=re.compile(r"llama[._-]cpp|llama-server|llamacpp"),
        port=8080,
        open_host=False,
        model=("-m", "--model", "-hf", "-hfr", "--hf-repo"),
        served=("-a", "--alias"),
        context=("-c", "--ctx-size"),
        requests=("-np", "--parallel"),
        key_flags=("--api-key", "--api-key-file"),
        key_variable="LLAMA_API_KEY",
        any_name=True,
        variables=(
            ("LLAMA_ARG_HOST", "--host"),
            ("LLAMA_ARG_PORT", "--port"),
            ("LLAMA_ARG_MODEL", "--model"),
            ("LLAMA_ARG_ALIAS", "--alias"),
            ("LLAMA_ARG_CTX_SIZE", "--ctx-size"),
            ("LLAMA_ARG_N_PARALLEL", "--parallel"),
        ),
    ),
    Engine(
        name="tei",
        command=re.compile(r"text-embeddings-router"),
        image=re.compile(r"text-embeddings-inference"),
        port=80,
        open_host=True,
        host_flags=("--hostname",),
        model=("--model-id",),
        key_variable="API_KEY",
        any_name=True,
        variables=(("PORT", "--port"), ("MODEL_ID", "--model-id")),
    ),
    Engine(
        name="ollama",
        command=re.compile(r"\bollama serve\b"),
        image=re.compile(r"(^|/)ollama(:|@|$)"),
        port=11434,
        open_host=True,
        key_flags=(),
        lazy=True,
    ),
)
# Programs that speak of engines without being one: routers, exporters, web pages.
_NOT_ENGINES: Final = re.compile(
    r"router\.launch|launch_router|production-stack|open-?webui|exporter|litellm|model-gateway"
    r"|/(?:\w+-)*router[:@]|bench"
)
_QUERY_LANE: Final = re.compile(r"\bserving embeddings serve\b")
_GATEWAY: Final = re.compile(r"\bgateway serve\b")
# Where the command begins with one of these, the image's name says nothing about what runs.
_OTHER_PROGRAMS: Final = frozenset(
    {"bash", "sh", "/bin/bash", "/bin/sh", "sleep", "tail", "python", "python3", "pip", "ray"}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """An engine as a service starts it."""

    engine: Engine
    words: Words
    known: bool = True  # False where an image built elsewhere holds the command

    @property
    def port(self) -> int:
        return self.words.number(*self.engine.port_flags) or self.engine.port

    @property
    def host(self) -> str:
        found = self.words.first(*self.engine.host_flags)
        return found or ("0.0.0.0" if self.engine.open_host else "127.0.0.1")  # noqa: S104

    @property
    def model(self) -> str | None:
        found = self.words.first(*self.engine.model)
        if found:
            return found
        # `vllm serve MODEL`, or MODEL alone where the image itself says `vllm serve`.
        plain = self.words.plain
        after = plain.index("serve") + 1 if "serve" in plain else 0
        return plain[after] if self.engine.name == "vllm" and after < len(plain) else None

    @property
    def served(self) -> tuple[str, ...]:
        """The names it answers to; empty where they cannot be told from here."""
        names = self.words.all(*self.engine.served)
        if names is not None:
            return tuple(part for name in names for part in name.split(","))
        return (self.model,) if self.model and self.engine.name != "llama.cpp" else ()

    @property
    def context(self) -> int | None:
        """Tokens that one request may use, where a flag says so."""
        total = self.words.number(*self.engine.context)
        if self.engine.name != "llama.cpp" or not total:
            return total
        return total // (self.requests or 1)  # llama.cpp divides it among its parallel requests

    @property
    def requests(self) -> int | None:
        return self.words.number(*self.engine.requests)

    @property
    def ranks(self) -> int:
        """GPUs that one copy of the model needs."""
        stages = self.words.number(*self.engine.stages) or 1
        return (self.words.number(*self.engine.parallel) or 1) * stages

    def memory(self, service: Service) -> float | None:
        """The share of each GPU's memory that it may take, where a flag or `x-gpu-memory` says."""
        said = self.words.first(*self.engine.memory) if self.engine.memory else None
        return share(said or service.data.get("x-gpu-memory"))

    def key(self, service: Service) -> str | None:
        """The key it asks for; "" for one that is set and unknown here; None for none."""
        if self.engine.key_flags and self.words.has(*self.engine.key_flags):
            return self.words.first("--api-key") or ""
        name = self.engine.key_variable
        found = service.environment.get(name) if name else None
        return None if found is None or found.value == "" else (found.value or "")


def share(given: object) -> float | None:
    """A share between 0 and 1; None for anything else."""
    try:
        value = float(str(given))
    except ValueError:
        return None
    return value if 0 < value <= 1 else None


def launch(service: Service) -> Launch | None:
    """The engine that this service starts; None if it starts something else."""
    found = words.of_service(service.data)
    said = _said(service)
    image = str(service.data.get("image") or "").lower()
    if _NOT_ENGINES.search(said) or _NOT_ENGINES.search(image):
        return None
    engine = next((e for e in ENGINES if e.command.search(said)), None)
    if engine is None and not _OTHER_PROGRAMS.intersection(found.plain[:1]):
        engine = next((e for e in ENGINES if e.image.search(image)), None)
        engine = engine or _built(service)
    if engine is None:
        return None
    known = bool(said) or "build" not in service.data
    given = _with_variables(engine, found, service.environment)
    return Launch(engine=engine, words=given, known=known)


def _built(service: Service) -> Engine | None:
    """The engine in an image that is built here: by its names, if it takes GPUs."""
    if "build" not in service.data or not gpus.taken(service):
        return None
    build = service.data["build"]
    parts = build.values() if isinstance(build, Mapping) else (build,)
    names = [service.name, str(service.data.get("container_name") or ""), *map(str, parts)]
    return next((e for e in ENGINES if any(e.image.search(n.lower()) for n in names)), None)


def _said(service: Service) -> str:
    """Entrypoint and command in one line, for patterns."""
    given = (service.data.get("entrypoint"), service.data.get("command"))
    texts = (" ".join(map(str, g)) if isinstance(g, list) else str(g or "") for g in given)
    return " ".join(" ".join(texts).split())


def _with_variables(engine: Engine, given: Words, environment: Mapping[str, Value]) -> Words:
    """Settings that come by variable, under the flag they stand for; a flag wins."""
    flags = {
        flag: (found.value,)
        for name, flag in engine.variables
        if (found := environment.get(name)) is not None and found.value
    }
    return Words(plain=given.plain, flags={**flags, **given.flags})


def is_query_lane(service: Service) -> bool:
    """True for this project's embedding server on CPU."""
    return bool(_QUERY_LANE.search(_said(service)))


def is_gateway(service: Service) -> bool:
    """True for this project's gateway."""
    return bool(_GATEWAY.search(_said(service)))
