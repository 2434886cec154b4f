"""Kits: a start script outside git that runs the container itself, told by its environment.

A kit that is not there is said so, and never fetched: its licence and its release are a person's
choice.
"""

from __future__ import annotations

import posixpath
from collections.abc import Mapping

from serving.engines import container, variables
from serving.engines.engine import Host, Launch, Mount, Need
from serving.engines.places import path_on_host
from serving.recipes.recipe import Recipe


def start(
    recipe: Recipe,
    host: Host,
    *,
    launcher: str,
    env: Mapping[str, str | int | float | None],
    hf_home: str,
    mounts: tuple[Mount, ...] = (),
    ctx: int,
) -> Launch:
    """`bash start.sh` in the kit's folder; a variable without a value is left to the kit."""
    script = path_on_host(launcher, host, under=host.kits.get(recipe.engine))
    own = {name: f"{value}" for name, value in env.items() if value is not None}
    where = f"there is no {script}"
    return Launch(
        argv=("bash", script),
        env=variables.together(recipe, host, own),
        cwd=posixpath.dirname(script) or None,
        container=recipe.container,
        needs=(
            Need(path=script, message=f"kit not installed: {where}"),
            Need(path=host.docker, message=f"docker is not installed: {host.docker}"),
            Need(path=hf_home, message=f"the weights are not on this machine: {hf_home}"),
        ),
        port=recipe.port,
        stop=container.stop(recipe, host),
        logs=container.logs(recipe, host),
        names=container.names(recipe),
        mounts=mounts,
        ctx=ctx,
    )
