"""SGLang in a container. Speculation stands in the recipe: the draft model and its numbers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from serving.engines import container
from serving.engines.chosen import chosen
from serving.engines.engine import Engine, Host, Launch, Overrides, Probe
from serving.recipes.defaults import DEFAULTS
from serving.recipes.flags import with_option, without
from serving.recipes.recipe import Recipe, block_of
from serving.recipes.schema import Sglang

# A recipe's method -> SGLang's word for it.
_ALGORITHM: Final = {"dflash": "DFLASH", "eagle": "EAGLE", "eagle3": "EAGLE3", "mtp": "NEXTN"}


def launch(recipe: Recipe, host: Host, overrides: Overrides) -> Launch:
    """`python3 -m sglang.launch_server` with the block's settings, then the recipe's arguments."""
    block, wish = block_of(recipe, Sglang), chosen(recipe, overrides)
    args = without(container.all_inside(block.args), "--host", "--port", "--served-model-name")
    args = with_option(args, ("--context-length",), wish.ctx)
    args = with_option(args, ("--kv-cache-dtype",), wish.kv)
    running = wish.max_num_seqs or block.max_running
    command = (
        *("python3", "-m", "sglang.launch_server", "--model-path", container.inside(block.model)),
        *("--served-model-name", recipe.served_name),
        *("--host", recipe.host, "--port", str(recipe.port), *_settings(recipe, block)),
        *with_option(args, ("--max-running-requests",), running),
    )
    made = container.run(
        recipe, host, image=block.image, command=command, ctx=wish.ctx, cache=block.cache
    )
    models = [block.model, *([block.draft] if block.draft else [])]
    needs = [need for model in models for need in container.local_model(model, host)]
    return replace(made, needs=(*made.needs, *needs))


def _settings(recipe: Recipe, block: Sglang) -> Iterator[str]:
    if block.mem_fraction is not None:
        yield from ("--mem-fraction-static", f"{block.mem_fraction:g}")
    if block.draft is not None:
        method = recipe.speculative.method if recipe.speculative else "dflash"
        yield from ("--speculative-algorithm", _ALGORITHM.get(method, method.upper()))
        yield from ("--speculative-draft-model-path", container.inside(block.draft))
    if block.num_draft_tokens is not None:
        yield from ("--speculative-num-draft-tokens", str(block.num_draft_tokens))
    if block.language_only:
        yield "--language-only"


SGLANG: Final = Engine(
    name="sglang",
    title="SGLang (container)",
    how="container",
    # 503 while it warms up; /health_generate would make a token on every look.
    probe=Probe(
        path="/health", expects="empty-200", ready_timeout_s=DEFAULTS["sglang"].start_timeout_s
    ),
    launch=launch,
    default_container=DEFAULTS["sglang"].container,
    facts="container qwen38-sglang, :8000",
)
