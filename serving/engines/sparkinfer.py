"""sparkinfer: one container for one model; its pin file alone says image, weights and numbers."""

from __future__ import annotations

import json
from typing import Final

from serving.engines import container
from serving.engines.chosen import chosen
from serving.engines.engine import Engine, Host, Launch, Overrides, Probe
from serving.recipes.blocks import Sparkinfer
from serving.recipes.defaults import DEFAULTS
from serving.recipes.flags import with_option
from serving.recipes.pins import SparkinferPin
from serving.recipes.recipe import Recipe, block_of


def launch(recipe: Recipe, host: Host, overrides: Overrides) -> Launch:
    """The pinned image with the pinned numbers; nothing is pulled or downloaded on the way up."""
    pin, wish = block_of(recipe, Sparkinfer).pin, chosen(recipe, overrides)
    source, runtime = pin.source, pin.runtime
    image = f"{source.image}@{source.image_digest}" if source.image_digest else source.image
    seqs = wish.max_num_seqs or runtime.max_num_seqs
    revision = ("--revision", source.model_revision) if source.model_revision else ()
    command = (
        *("--model", source.model_repo, *revision, "--served-model-name", recipe.served_name),
        *("--host", recipe.host, "--port", str(recipe.port)),
        *("--max-model-len", str(wish.ctx), "--max-num-seqs", str(seqs)),
        *("--max-num-batched-tokens", str(runtime.max_num_batched_tokens)),
        *("--gpu-memory-utilization", f"{runtime.gpu_memory_utilization:g}"),
        *_speculation(recipe, pin),
    )
    return container.run(
        recipe,
        host,
        image=image,
        command=with_option(command, ("--kv-cache-dtype",), wish.kv),
        ctx=wish.ctx,
        env={"HF_HUB_OFFLINE": "0" if runtime.auto_download else "1"},
        options=("--pull", "never"),
    )


def _speculation(recipe: Recipe, pin: SparkinferPin) -> tuple[str, ...]:
    if pin.runtime.mode == "off":
        return ()
    tokens = recipe.speculative.num_speculative_tokens if recipe.speculative else None
    settings = {"method": pin.runtime.mode}
    more = {"num_speculative_tokens": tokens} if tokens else {}
    return ("--speculative-config", json.dumps({**settings, **more}))


SPARKINFER: Final = Engine(
    name="sparkinfer",
    title="sparkinfer",
    how="container",
    probe=Probe(
        path="/health", expects="empty-200", ready_timeout_s=DEFAULTS["sparkinfer"].start_timeout_s
    ),
    launch=launch,
    default_container=DEFAULTS["sparkinfer"].container,
    facts="container deepseek-v4-flash-spark, :8000; pin file only",
)
