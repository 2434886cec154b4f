"""The recipes that this slot may load, read again when a file of their folder has changed."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from common.problems import Problem
from serving.recipes.load import FOLDER, load_folder
from serving.recipes.recipe import Recipe
from serving.slot.settings import Settings

_Seen = tuple[tuple[str, int, int], ...]


class Shelf:
    """Recipes by id. One whose file is broken at the moment stays as it was last read well."""

    def __init__(self, settings: Settings) -> None:
        self._folder = settings.recipes or FOLDER
        self._enabled = settings.enabled
        self._seen: _Seen = ()
        self._all: Mapping[str, Recipe] = {}
        self._ever: dict[str, Recipe] = {}
        self.problems: tuple[Problem, ...] = ()

    def refresh(self) -> bool:
        """Read the folder again if anything in it changed; whether it did."""
        seen = _stamps(self._folder)
        if seen == self._seen:
            return False
        loaded = load_folder(self._folder)
        broken = {p.place.file for p in loaded.problems if p.severity == "error"}
        kept = {id_: r for id_, r in self._all.items() if r.file in broken}
        self._seen, self._all = seen, {**kept, **loaded.recipes}
        self._ever |= self._all
        self.problems = loaded.problems
        return True

    @property
    def every(self) -> Mapping[str, Recipe]:
        """All recipes of the folder: what runs here may be one that is not enabled."""
        return self._all

    def last(self, id_: str | None) -> Recipe | None:
        """The recipe as it was read last: what is loaded goes on though its file is gone."""
        return self._ever.get(id_ or "")

    @property
    def enabled(self) -> Mapping[str, Recipe]:
        """Those that may be loaded."""
        if self._enabled is None:
            return self._all
        return {id_: self._all[id_] for id_ in self._enabled if id_ in self._all}

    @property
    def missing(self) -> tuple[str, ...]:
        """Ids of the slot file that no recipe has."""
        return tuple(id_ for id_ in self._enabled or () if id_ not in self._all)

    def find(self, name: str) -> Recipe | None:
        """The enabled recipe of this id, or else the one with this alias."""
        by_alias = (r for r in self.enabled.values() if name in r.aliases)
        return self.enabled.get(name) or next(by_alias, None)

    def stop_graces_s(self) -> dict[str, float]:
        """How long each engine may take to stop."""
        return {id_: recipe.stop_grace_s for id_, recipe in self._all.items()}


def _stamps(folder: Path) -> _Seen:
    """What a change of any file shows in: recipes name services and pins beside them."""
    found = []
    for path in sorted(folder.rglob("*.yaml")):
        try:
            stat = path.stat()
        except OSError:
            continue  # it went between the two looks
        found.append((str(path), stat.st_mtime_ns, stat.st_size))
    return tuple(found)
