"""From a recipe and what a person asks for this time to numbers: context, KV type, sequences."""

from __future__ import annotations

from dataclasses import dataclass

from serving.engines.engine import Overrides
from serving.errors import Unusable
from serving.recipes.recipe import Recipe


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """What this start runs with."""

    ctx: int
    kv: str | None
    max_num_seqs: int | None


def chosen(recipe: Recipe, overrides: Overrides) -> Chosen:
    """An own number wins over a preset, a preset over the recipe's default. Raises Unusable."""
    context = recipe.context
    preset = context.presets.get(overrides.preset or "")
    if overrides.preset and preset is None:
        known = ", ".join(context.presets) or "none"
        raise Unusable(f"recipe '{recipe.id}' has no preset '{overrides.preset}' (it has: {known})")
    ctx = overrides.ctx or (preset.ctx if preset else context.default)
    longest = max(
        context.native or 0, context.default, *(p.ctx for p in context.presets.values()), 0
    )
    if overrides.ctx and (ctx < 1 or (context.native and ctx > longest)):
        raise Unusable(f"recipe '{recipe.id}' runs with 1 to {longest} tokens, not {ctx}")
    return Chosen(
        ctx=ctx,
        kv=overrides.kv or (preset.kv if preset else None) or context.kv_default,
        max_num_seqs=preset.max_num_seqs if preset else None,
    )
