"""Pins: data files that fix the release of an engine which has no tag to trust."""

from __future__ import annotations

from typing import Literal

from serving.recipes.schema import Block, Count, Gib, Port, Share, Text, Texts


class Ds4Source(Block):
    """Where ds4-server is built from."""

    repo: Text
    ref: Text
    commit: Text | None = None
    upstream: Text | None = None


class Ds4Model(Block):
    """The weights that this build was tried with."""

    hf_repo: Text
    gguf_file: Text
    inventory_path: Text
    served_name: Text
    size_bytes: Count | None = None


class Ds4Build(Block):
    """How it is built."""

    make_target: Text
    cuda_arch: Text
    binaries: Texts


class Ds4Runtime(Block):
    """What it needs at run time."""

    port: Port
    default_ctx: Count
    max_safe_ctx: Count
    min_avail_mb_before_up: Count
    oom_guard: bool
    oom_min_avail_mb: Count


class Ds4Pin(Block):
    """The pin of a ds4-server."""

    source: Ds4Source
    model: Ds4Model
    build: Ds4Build
    runtime: Ds4Runtime


class SparkinferSource(Block):
    """The image, and the weights by revision."""

    launcher: Text
    image: Text
    image_digest: Text | None = None
    model_repo: Text
    model_revision: Text | None = None


class SparkinferRuntime(Block):
    """How it runs; nothing of this stands in a recipe."""

    port: Port
    default_ctx: Count
    max_num_seqs: Count
    max_num_batched_tokens: Count
    gpu_memory_utilization: Share
    mode: Literal["dspark", "mtp", "off"]
    min_avail_gib_before_up: Gib
    auto_download: Literal[0, 1] = 0


class SparkinferPin(Block):
    """The pin of a sparkinfer container."""

    source: SparkinferSource
    runtime: SparkinferRuntime
