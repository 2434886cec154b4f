"""vLLM in eugr's recipe runner: a service file says what runs, the runner's options go over it."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator
from typing import Final

from serving.engines import container, variables
from serving.engines.chosen import Chosen, chosen
from serving.engines.engine import Engine, Host, Launch, Need, Overrides, Probe
from serving.engines.places import on_host
from serving.recipes.blocks import Eugr
from serving.recipes.defaults import DEFAULTS
from serving.recipes.recipe import Recipe, block_of


def launch(recipe: Recipe, host: Host, overrides: Overrides) -> Launch:
    """`run-recipe.sh SERVICE -d ...`: it starts the container and returns.

    The service files of public recipes listen on every address; `--host` says otherwise here.
    """
    block, wish = block_of(recipe, Eugr), chosen(recipe, overrides)
    script = posixpath.join(host.runner, "run-recipe.sh")
    secret = variables.of_host(recipe, host)
    return Launch(
        argv=(
            *(script, block.service.path, "-d", *_machines(block)),
            *("--host", recipe.host, "--port", str(recipe.port)),
            *("--max-model-len", str(wish.ctx)),
            *(("--name", recipe.container) if block.options.container else ()),
            *(word for one in _given(recipe, host) for word in ("-e", one)),
            *_passed_on(block, wish),
        ),
        env=secret,
        cwd=host.runner,
        container=recipe.container,
        needs=(
            Need(path=script, message=f"the recipe runner is not installed: there is no {script}"),
            Need(path=host.docker, message=f"docker is not installed: {host.docker}"),
        ),
        port=recipe.port,
        stop=container.stop(recipe, host),
        logs=container.logs(recipe, host),
        names=container.names(recipe),
        ctx=wish.ctx,
    )


def _machines(block: Eugr) -> Iterator[str]:
    """One machine, or several: without Ray they find each other by a port of the first."""
    options = block.options
    if options.solo:
        yield "--solo"
        return
    if options.no_ray:
        yield "--no-ray"
    if options.nodes:
        yield from ("-n", ",".join(options.nodes))
    if options.master_port is not None:
        yield from ("--master-port", str(options.master_port))


def _given(recipe: Recipe, host: Host) -> Iterator[str]:
    """NAME=value, and a secret as NAME alone: docker takes it from its own environment."""
    for name, value in variables.of_recipe(recipe, host).items():
        yield f"{name}={value}"
    yield from variables.of_host(recipe, host)


def _passed_on(block: Eugr, wish: Chosen) -> tuple[str, ...]:
    """What goes to the engine itself; of an option given twice it takes the last."""
    args = [*block.options.args]
    args += ["--kv-cache-dtype", wish.kv] if wish.kv else []
    args += ["--max-num-seqs", str(wish.max_num_seqs)] if wish.max_num_seqs else []
    return ("--", *args) if args else ()


def command(recipe: Recipe, host: Host, overrides: Overrides | None = None) -> str:
    """What the runner's container will run, for people: the template filled in."""
    block, wish = block_of(recipe, Eugr), chosen(recipe, overrides or Overrides())
    over = {"host": recipe.host, "port": recipe.port, "max_model_len": wish.ctx}
    over |= {"tensor_parallel": 1} if block.options.solo else {}
    passed = " ".join(_passed_on(block, wish)[1:])
    return on_host(f"{block.service.command(over).rstrip()} {passed}".rstrip(), host)


EUGR: Final = Engine(
    name="eugr",
    title="vLLM (recipe runner)",
    how="container",
    probe=Probe(
        path="/health", expects="empty-200", ready_timeout_s=DEFAULTS["eugr"].start_timeout_s
    ),
    launch=launch,
    default_container=DEFAULTS["eugr"].container,
    facts="vLLM in spark-vllm-docker, container vllm_node, :8000",
)
