"""Containers: how one is run, what it sees of the machine, how it is stopped and read.

Inside, weights are at /models and /hf, read-only, whatever the machine calls them. A secret goes
by its name alone (`-e NAME`), with its value in the environment of docker: arguments show in `ps`.
"""

from __future__ import annotations

import posixpath
from collections.abc import Mapping, Sequence
from typing import Final

from serving.engines import variables
from serving.engines.engine import Host, Launch, Mount, Need
from serving.engines.places import filled, path_on_host
from serving.recipes.defaults import DEFAULTS
from serving.recipes.recipe import Recipe

MODELS: Final = "/models"
HF: Final = "/hf"
CACHE: Final = "/cache"


def inside(text: str) -> str:
    """A text of the recipe as the container's processes read it."""
    return filled(text, models=MODELS, hf_home=HF)


def all_inside(texts: Sequence[str]) -> tuple[str, ...]:
    """The same of each."""
    return tuple(inside(text) for text in texts)


def run(
    recipe: Recipe,
    host: Host,
    *,
    image: str,
    command: Sequence[str],
    ctx: int,
    cache: str | None = None,
    env: Mapping[str, str] | None = None,
    options: Sequence[str] = (),
) -> Launch:
    """`docker run -d` with every GPU, on the host's network: `--host` says who may call."""
    name = recipe.container or recipe.engine
    mounts = _mounts(host, cache)
    own = {"HF_HOME": HF, "HF_HUB_OFFLINE": "1", **(env or {})}
    own |= {"XDG_CACHE_HOME": CACHE} if cache else {}
    plain = {**own, **{name: inside(value) for name, value in recipe.env.items()}}
    secret = variables.of_host(recipe, host)
    given = [*(f"{key}={value}" for key, value in plain.items()), *secret]
    return Launch(
        argv=(
            *(host.docker, "run", "--detach", "--name", name, "--gpus", "all"),
            *("--network", "host", "--ipc", "host", "--init", *options),
            *(word for mount in mounts for word in ("--volume", volume(mount))),
            *(word for one in given for word in ("--env", one)),
            *(image, *command),
        ),
        env=secret,
        container=name,
        needs=_needs(host, mounts),
        port=recipe.port,
        stop=stop(recipe, host),
        logs=logs(recipe, host),
        names=names(recipe),
        mounts=mounts,
        ctx=ctx,
    )


def volume(mount: Mount) -> str:
    """A mount in docker's words."""
    return f"{mount.source}:{mount.target}{':ro' if mount.read_only else ''}"


def stop(recipe: Recipe, host: Host) -> tuple[tuple[str, ...], ...]:
    """Stopped within the recipe's grace, then removed: its name is free for the next start."""
    name, grace = recipe.container or recipe.engine, str(round(recipe.stop_grace_s))
    return (host.docker, "stop", "--time", grace, name), (host.docker, "rm", "--force", name)


def logs(recipe: Recipe, host: Host) -> tuple[str, ...]:
    """Prints what it said; to be kept before it is removed."""
    return host.docker, "logs", recipe.container or recipe.engine


def names(recipe: Recipe) -> tuple[str, ...]:
    """The recipe's own container and its engine's usual one: either says that it is up."""
    both = (recipe.container, DEFAULTS[recipe.engine].container)
    return tuple(dict.fromkeys(name for name in both if name))


def _mounts(host: Host, cache: str | None) -> tuple[Mount, ...]:
    found = [Mount(source=host.models, target=MODELS), Mount(source=host.hf_home, target=HF)]
    if cache:
        path = path_on_host(cache, host)
        found.append(Mount(source=path, target=CACHE, read_only=False))
    return tuple(found)


def _needs(host: Host, mounts: Sequence[Mount]) -> tuple[Need, ...]:
    """Docker makes a folder that is not there, as root and empty: better said before."""
    return (
        Need(path=host.docker, message=f"docker is not installed: {host.docker}"),
        *(
            Need(path=mount.source, message=f"there is no folder {mount.source} to mount")
            for mount in mounts
            if mount.read_only
        ),
    )


def local_model(model: str, host: Host) -> tuple[Need, ...]:
    """A path must be on this machine; a repository's name is the engine's to find."""
    if not model.startswith(("{models}", "{hf_home}")):
        return ()
    path = posixpath.normpath(path_on_host(model, host))
    return (Need(path=path, message=f"the model is not on this machine: {path}"),)
