"""vLLM in a plain container."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from serving.engines import container
from serving.engines.chosen import chosen
from serving.engines.engine import Engine, Host, Launch, Overrides, Probe
from serving.recipes.defaults import DEFAULTS
from serving.recipes.flags import with_option, without
from serving.recipes.recipe import Recipe, block_of
from serving.recipes.schema import Vllm


def launch(recipe: Recipe, host: Host, overrides: Overrides) -> Launch:
    """The image's own entry point is `vllm serve`; arguments follow the model."""
    block, wish = block_of(recipe, Vllm), chosen(recipe, overrides)
    args = without(container.all_inside(block.args), "--host", "--port", "--served-model-name")
    args = with_option(args, ("--max-model-len",), wish.ctx)
    args = with_option(args, ("--kv-cache-dtype",), wish.kv)
    args = with_option(args, ("--max-num-seqs",), wish.max_num_seqs)
    command = (
        *("--model", container.inside(block.model), "--served-model-name", recipe.served_name),
        *("--host", recipe.host, "--port", str(recipe.port), *args),
    )
    made = container.run(
        recipe, host, image=block.image, command=command, ctx=wish.ctx, cache=block.cache
    )
    return replace(made, needs=(*made.needs, *container.local_model(block.model, host)))


VLLM: Final = Engine(
    name="vllm",
    title="vLLM (container)",
    how="container",
    probe=Probe(
        path="/health", expects="empty-200", ready_timeout_s=DEFAULTS["vllm"].start_timeout_s
    ),
    launch=launch,
    default_container=DEFAULTS["vllm"].container,
    facts="a plain vLLM image, :8000; before it is ready the port refuses",
)
