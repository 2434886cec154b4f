"""ds4: a ds4-server of the host. It has no /health and no /metrics: its model list is the probe."""

from __future__ import annotations

from typing import Final

from serving.engines import variables
from serving.engines.chosen import chosen
from serving.engines.engine import Engine, Host, Launch, Need, Overrides, Probe
from serving.engines.places import all_on_host, path_on_host
from serving.errors import Unusable
from serving.recipes.blocks import Ds4
from serving.recipes.defaults import DEFAULTS
from serving.recipes.flags import value_of, with_option, without
from serving.recipes.recipe import Recipe, block_of


def launch(recipe: Recipe, host: Host, overrides: Overrides) -> Launch:
    """`ds4-server -m MODEL ...`. Raises Unusable for a KV type, which it does not take."""
    block, wish = block_of(recipe, Ds4), chosen(recipe, overrides)
    if wish.kv:
        raise Unusable(f"recipe '{recipe.id}': ds4-server takes no KV type")
    model = path_on_host(block.model, host)
    args = without(all_on_host(block.args, host), "--host", "--port")
    args = with_option(args, ("-c", "--ctx"), wish.ctx)
    drafter = value_of(args, "--dspark")
    return Launch(
        argv=(
            *(host.ds4_server, "-m", model, "--host", recipe.host, "--port", str(recipe.port)),
            *args,
        ),
        env=variables.together(recipe, host),
        needs=(
            Need(path=host.ds4_server, message=f"there is no ds4-server: {host.ds4_server}"),
            Need(path=model, message=f"the model is not on this machine: {model}"),
            *(
                [Need(path=drafter, message=f"the drafter is not on this machine: {drafter}")]
                if drafter
                else []
            ),
        ),
        port=recipe.port,
        ctx=wish.ctx,
    )


DS4: Final = Engine(
    name="ds4",
    title="ds4",
    how="process",
    probe=Probe(
        path="/v1/models", expects="models", ready_timeout_s=DEFAULTS["ds4"].start_timeout_s
    ),
    launch=launch,
    default_container=None,
    facts="host ds4-server, :8000; one request at a time",
)
