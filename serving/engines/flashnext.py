"""Flash-Next: vLLM for one model by its kit, which runs the container; no vLLM on the host."""

from __future__ import annotations

from typing import Final

from serving.engines import kit
from serving.engines.chosen import chosen
from serving.engines.engine import Engine, Host, Launch, Overrides, Probe
from serving.engines.places import path_on_host
from serving.recipes.defaults import DEFAULTS
from serving.recipes.recipe import Recipe, block_of
from serving.recipes.schema import Flashnext


def launch(recipe: Recipe, host: Host, overrides: Overrides) -> Launch:
    """`start.sh` of the kit with the block's settings as its variables."""
    block, wish = block_of(recipe, Flashnext), chosen(recipe, overrides)
    hf_home = path_on_host(block.hf_home, host) if block.hf_home else host.hf_home
    return kit.start(
        recipe,
        host,
        launcher=block.launcher,
        env={
            "PORT": recipe.port,
            "SERVED_MODEL_NAME": recipe.served_name,
            "TP1_CONTAINER_NAME": recipe.container,
            "IMAGE": block.image,
            "HF_HOME": hf_home,
            "MAX_MODEL_LEN": wish.ctx,
            "KV_CACHE_DTYPE": wish.kv,
            "KV_TARGET_GIB": _plain(block.kv_target_gib),
            "HOST_SLACK_GIB": _plain(block.host_reserve_gib),
            "MAX_NUM_SEQS": wish.max_num_seqs or block.max_num_seqs,
            "MTP_NUM_SPECULATIVE_TOKENS": block.mtp_tokens,
            "DRAFT_VOCAB": block.draft_vocab,
            "YARN": int(block.yarn),
        },
        hf_home=hf_home,
        ctx=wish.ctx,
    )


def _plain(gib: float | None) -> str | None:
    return None if gib is None else f"{gib:g}"


FLASHNEXT: Final = Engine(
    name="flashnext",
    title="Flash-Next (kit)",
    how="kit",
    probe=Probe(
        path="/health", expects="empty-200", ready_timeout_s=DEFAULTS["flashnext"].start_timeout_s
    ),
    launch=launch,
    default_container=DEFAULTS["flashnext"].container,
    facts="container vllm-fn-tp1, :8000, image vllm/vllm-openai:qwen38-flash-next",
)
