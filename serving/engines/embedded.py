"""The project's own llama.cpp server in a process of its own: for tests, and for `make run`."""

from __future__ import annotations

import json
from typing import Final

from serving.engines import variables
from serving.engines.chosen import chosen
from serving.engines.engine import Engine, Host, Launch, Need, Overrides, Probe
from serving.engines.places import path_on_host
from serving.errors import Unusable
from serving.recipes.blocks import Embedded
from serving.recipes.defaults import DEFAULTS
from serving.recipes.recipe import Recipe, block_of


def launch(recipe: Recipe, host: Host, overrides: Overrides) -> Launch:
    """`python -m serving.embedded.engine SETTINGS`; without ENGINE_KEY it asks for no key."""
    block = block_of(recipe, Embedded)
    wish = chosen(recipe, overrides)
    if wish.kv:
        raise Unusable(f"recipe '{recipe.id}': the embedded engine takes no KV type")
    model = path_on_host(block.model, host)
    settings = {
        "name": recipe.id,
        "served_name": recipe.served_name,
        "model": model,
        "port": recipe.port,
        "threads": block.options.threads,
        "context_tokens": wish.ctx,
        "parallel": wish.max_num_seqs or block.options.parallel,
    }
    return Launch(
        argv=(host.python, "-m", "serving.embedded.engine", json.dumps(settings)),
        env=variables.together(recipe, host),
        needs=(
            Need(path=host.python, message=f"there is no Python: {host.python}"),
            Need(path=model, message=f"the model is not on this machine: {model}"),
        ),
        port=recipe.port,
        ctx=wish.ctx,
    )


EMBEDDED: Final = Engine(
    name="embedded",
    title="embedded llama.cpp",
    how="process",
    probe=Probe(
        path="/health", expects="json-ok", ready_timeout_s=DEFAULTS["embedded"].start_timeout_s
    ),
    launch=launch,
    default_container=None,
    facts="this project's llama.cpp child, loopback, for tests and make run",
)
