"""`serving slot up ID --dry-run`: what would run, and what is missing for it. Nothing runs."""

from __future__ import annotations

from serving.engines.engine import Host, Overrides
from serving.engines.engines import launch, missing
from serving.engines.render import render
from serving.errors import Unusable
from serving.recipes.load import FOLDER, load_folder
from serving.slot.host import host_of
from serving.slot.settings import Settings


def dry_run(
    settings: Settings | None, name: str, *, ctx: int | None, kv: str | None, preset: str | None
) -> str:
    """The launch as text, and what is missing here for it. Raises Unusable.

    Without a slot file the machine is one that has nothing but names.
    """
    folder = (settings.recipes if settings else None) or FOLDER
    recipe = load_folder(folder, drafts=True).find(name)
    if recipe is None:
        raise Unusable(f"there is no recipe {name} in {folder}, or it has errors")
    host = host_of(settings) if settings else Host()
    launched = launch(recipe, host, Overrides(ctx=ctx, kv=kv, preset=preset))
    lines = [render(launched), *(f"missing    {each}" for each in missing(launched))]
    return "\n".join(lines)
