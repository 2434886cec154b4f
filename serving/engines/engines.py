"""Every engine by its name: one row and one small file each."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final

from serving.engines.ds4 import DS4
from serving.engines.embedded import EMBEDDED
from serving.engines.engine import Engine, Host, Launch, Overrides
from serving.engines.eugr import EUGR
from serving.engines.flashnext import FLASHNEXT
from serving.engines.llamacpp import LLAMACPP
from serving.engines.sglang import SGLANG
from serving.engines.sparkinfer import SPARKINFER
from serving.engines.tensorfold import TENSORFOLD
from serving.engines.vllm import VLLM
from serving.recipes.recipe import Recipe

_ROWS: Final = (
    *(EUGR, VLLM, SGLANG, LLAMACPP, DS4),
    *(SPARKINFER, FLASHNEXT, TENSORFOLD, EMBEDDED),
)
ENGINES: Final[Mapping[str, Engine]] = MappingProxyType({row.name: row for row in _ROWS})


def launch(recipe: Recipe, host: Host, overrides: Overrides | None = None) -> Launch:
    """How this recipe starts on this machine. Pure. Raises Unusable for impossible overrides."""
    return ENGINES[recipe.engine].launch(recipe, host, overrides or Overrides())


def containers() -> tuple[str, ...]:
    """The default container of every engine that has one: what might be up, whoever started it."""
    return tuple(e.default_container for e in ENGINES.values() if e.default_container)


def there(path: str) -> bool:
    """True if the path is there, or is a program of the PATH."""
    return Path(path).exists() or ("/" not in path and shutil.which(path) is not None)


def problems(
    recipe: Recipe, host: Host, *, exists: Callable[[str], bool] = there
) -> tuple[str, ...]:
    """What is missing on this machine, a line each; nothing is ever fetched for it."""
    return missing(launch(recipe, host), exists=exists)


def missing(launch: Launch, *, exists: Callable[[str], bool] = there) -> tuple[str, ...]:
    """The same of a launch that is already made."""
    return tuple(need.message for need in launch.needs if not exists(need.path))
