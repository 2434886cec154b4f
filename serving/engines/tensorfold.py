"""TensorFold: its own engine, not vLLM, by its kit; all its recipes share one container.

The kit runs `docker run --gpus all --network host` from an image of this machine, which nothing
pulls, with the weights read-only where the container's user has its cache.
"""

from __future__ import annotations

from typing import Final

from serving.engines import kit
from serving.engines.chosen import chosen
from serving.engines.engine import Engine, Host, Launch, Mount, Overrides, Probe
from serving.engines.places import path_on_host
from serving.recipes.defaults import DEFAULTS
from serving.recipes.recipe import Recipe, block_of
from serving.recipes.schema import Tensorfold

# Where the slot's file names the start script, for a recipe that leaves it to the machine.
LAUNCHER: Final = ("TENSORFOLD_LAUNCHER", "SPARK_TENSORFOLD_LAUNCHER")
WEIGHTS: Final = "/root/.cache/huggingface"  # a path inside the kit's container, and fixed there


def launch(recipe: Recipe, host: Host, overrides: Overrides) -> Launch:
    """`start.sh` of the kit; PORT is always said, because the kit's own default is 8888."""
    block, wish = block_of(recipe, Tensorfold), chosen(recipe, overrides)
    hf_home = path_on_host(block.hf_home, host) if block.hf_home else host.hf_home
    tokens = recipe.speculative.num_speculative_tokens if recipe.speculative else None
    return kit.start(
        recipe,
        host,
        launcher=_launcher(block, host),
        env={
            "PORT": recipe.port,
            "SERVED_NAME": recipe.served_name,
            "CONTAINER_NAME": recipe.container,
            "CONTEXT": wish.ctx,
            "KV_DTYPE": wish.kv,
            "PARALLEL": wish.max_num_seqs,
            "MTP_DRAFTS": tokens,
            "MAX_TOKENS": recipe.generation.max_tokens,
            "HF_HOME": hf_home,
            "PREPARE": block.prepare,
            "FOREGROUND": 0,
        },
        hf_home=hf_home,
        mounts=(Mount(source=hf_home, target=WEIGHTS, read_only=True),),
        ctx=wish.ctx,
    )


def _launcher(block: Tensorfold, host: Host) -> str:
    """The recipe's, else the machine's, else the usual name in the kit's folder."""
    given = (host.env[name] for name in LAUNCHER if host.env.get(name))
    return block.launcher or next(given, "start.sh")


TENSORFOLD: Final = Engine(
    name="tensorfold",
    title="TensorFold (kit)",
    how="kit",
    probe=Probe(
        path="/health", expects="empty-200", ready_timeout_s=DEFAULTS["tensorfold"].start_timeout_s
    ),
    launch=launch,
    default_container=DEFAULTS["tensorfold"].container,
    facts="container qwen38-flash-next-tf, :8000 (the kit's own default is 8888)",
)
