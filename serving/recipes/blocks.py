"""An engine's own part of a recipe, with the files that it names already read."""

from __future__ import annotations

from dataclasses import dataclass

from serving.recipes.pins import Ds4Pin, SparkinferPin
from serving.recipes.schema import EmbeddedOptions, EugrOptions, Flashnext, Sglang, Tensorfold, Vllm
from serving.recipes.service import Service


@dataclass(frozen=True, slots=True, kw_only=True)
class Eugr:
    """vLLM in its recipe runner: the service file says what runs."""

    service: Service
    options: EugrOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class Llamacpp:
    """A llama-server of the host."""

    model: str
    args: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ds4:
    """A ds4-server of the host."""

    model: str
    args: tuple[str, ...]
    pin: Ds4Pin | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Sparkinfer:
    """A container that is fixed by its pin alone."""

    pin: SparkinferPin


@dataclass(frozen=True, slots=True, kw_only=True)
class Embedded:
    """The project's own llama.cpp server."""

    model: str
    options: EmbeddedOptions


EngineBlock = Eugr | Vllm | Sglang | Llamacpp | Ds4 | Sparkinfer | Flashnext | Tensorfold | Embedded
