"""llama.cpp: a llama-server of the host. Its default port moved between releases: always said."""

from __future__ import annotations

from typing import Final

from serving.engines import variables
from serving.engines.chosen import chosen
from serving.engines.engine import Engine, Host, Launch, Need, Overrides, Probe
from serving.engines.places import all_on_host, path_on_host
from serving.recipes.blocks import Llamacpp
from serving.recipes.defaults import DEFAULTS
from serving.recipes.flags import with_option, without
from serving.recipes.recipe import Recipe, block_of


def launch(recipe: Recipe, host: Host, overrides: Overrides) -> Launch:
    """`llama-server -m MODEL ...` with the recipe's arguments and what the slot must know."""
    block = block_of(recipe, Llamacpp)
    model = path_on_host(block.model, host)
    wish = chosen(recipe, overrides)
    args = without(all_on_host(block.args, host), "--host", "--port", "--alias", "-a")
    args = with_option(args, ("-c", "--ctx-size"), wish.ctx)
    args = with_option(args, ("--cache-type-k", "-ctk"), wish.kv)
    args = with_option(args, ("--cache-type-v", "-ctv"), wish.kv)
    args = with_option(args, ("--parallel", "-np"), wish.max_num_seqs)
    return Launch(
        argv=(
            *(host.llama_server, "-m", model, "--alias", recipe.served_name),
            *("--host", recipe.host, "--port", str(recipe.port), *args),
        ),
        env=variables.together(recipe, host),
        needs=(
            Need(path=host.llama_server, message=f"there is no llama-server: {host.llama_server}"),
            Need(path=model, message=f"the model is not on this machine: {model}"),
        ),
        port=recipe.port,
        ctx=wish.ctx,
    )


LLAMACPP: Final = Engine(
    name="llamacpp",
    title="llama.cpp",
    how="process",
    # 503 "Loading model" until it is ready.
    probe=Probe(
        path="/health",
        expects="json-ok",
        ready_timeout_s=DEFAULTS["llamacpp"].start_timeout_s,
    ),
    launch=launch,
    default_container=None,
    facts="host llama-server, :8081",
)
