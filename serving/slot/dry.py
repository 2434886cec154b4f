"""`serving slot up ID --dry-run`: what would run, and what is missing for it. Nothing runs."""

from __future__ import annotations

import shlex

from serving.engines.engine import Host, Overrides
from serving.engines.engines import launch, missing
from serving.errors import Unusable
from serving.recipes.load import FOLDER, load_folder
from serving.slot.host import host_of
from serving.slot.keep import mask
from serving.slot.settings import Settings


def dry_run(
    settings: Settings | None, name: str, *, ctx: int | None, kv: str | None, preset: str | None
) -> str:
    """The command as a shell would take it, with its environment; secrets hidden. Raises Unusable.

    Without a slot file the machine is one that has nothing but names.
    """
    folder = (settings.recipes if settings else None) or FOLDER
    recipe = load_folder(folder, drafts=True).find(name)
    if recipe is None:
        raise Unusable(f"there is no recipe {name} in {folder}, or it has errors")
    host = host_of(settings) if settings else Host()
    launched = launch(recipe, host, Overrides(ctx=ctx, kv=kv, preset=preset))
    lines = [mask(f"{name}={shlex.quote(value)}") + " \\" for name, value in launched.env.items()]
    lines.insert(0, f"cd {shlex.quote(launched.cwd)} && \\") if launched.cwd else None
    lines += [mask(shlex.join(launched.argv))]
    lines += [f"# stop: {shlex.join(step)}" for step in launched.stop]
    lines += [f"# missing here: {each}" for each in missing(launched)]
    return "\n".join(lines)
