"""What each engine's recipes need not say: one row an engine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from serving.recipes.schema import EngineName


@dataclass(frozen=True, slots=True, kw_only=True)
class Defaults:
    """Of one engine: where it listens, how long it loads and stops, which keys are its own."""

    port: int
    start_timeout_s: float
    stop_grace_s: float
    container: str | None
    needs: tuple[str, ...]  # keys of the file without which there is nothing to start
    may: tuple[str, ...] = ()


# All but llama.cpp and the embedded engine listen on 8000: one of them runs at a time.
DEFAULTS: Final[Mapping[EngineName, Defaults]] = {
    "eugr": Defaults(
        port=8000,
        start_timeout_s=1800,
        stop_grace_s=60,
        container="vllm_node",
        needs=("eugr_recipe",),
        may=("eugr",),
    ),
    "vllm": Defaults(
        port=8000, start_timeout_s=1800, stop_grace_s=60, container="vllm", needs=("vllm",)
    ),
    "sglang": Defaults(
        port=8000,
        start_timeout_s=1800,
        stop_grace_s=60,
        container="qwen38-sglang",
        needs=("sglang",),
    ),
    "llamacpp": Defaults(
        port=8081,
        start_timeout_s=600,
        stop_grace_s=30,
        container=None,
        needs=("model",),
        may=("llamacpp_args",),
    ),
    "ds4": Defaults(
        port=8000,
        start_timeout_s=900,
        stop_grace_s=30,
        container=None,
        needs=("model", "ds4_args"),
        may=("pin",),
    ),
    "sparkinfer": Defaults(
        port=8000,
        start_timeout_s=1800,
        stop_grace_s=60,
        container="deepseek-v4-flash-spark",
        needs=("pin",),
    ),
    "flashnext": Defaults(
        port=8000,
        start_timeout_s=2400,
        stop_grace_s=60,
        container="vllm-fn-tp1",
        needs=("flashnext",),
    ),
    "tensorfold": Defaults(
        port=8000,
        start_timeout_s=1800,
        stop_grace_s=60,
        container="qwen38-flash-next-tf",
        needs=("tensorfold",),
    ),
    "embedded": Defaults(
        port=8081,
        start_timeout_s=120,
        stop_grace_s=5,
        container=None,
        needs=("model",),
        may=("embedded",),
    ),
}
