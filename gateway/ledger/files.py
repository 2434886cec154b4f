"""Everything that the ledger reads, at once, with everything that is wrong with it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from common.problems import Problem, in_order
from common.source import Source
from gateway.config.config import Config, LedgerFiles
from gateway.ledger.price_file import read_prices
from gateway.ledger.prices import PriceList
from gateway.ledger.profiles import Profile, read_profiles
from gateway.ledger.strict import did_you_mean
from gateway.ledger.tags import Tags, read_map, read_recipes, recipe_files, tags_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """What a cost is worked out from."""

    profiles: Mapping[str, Profile]
    prices: Mapping[str, PriceList]
    tags: Tags
    burst: frozenset[str] = frozenset()  # model groups that the cloud serves and charges
    problems: tuple[Problem, ...] = ()


def read(files: LedgerFiles, config: Config) -> Known:
    """The files as they are now. With an error among the problems no cost may be shown."""
    profiles, of_profiles = read_profiles(Path(files.roi_profiles))
    prices, source, of_prices = read_prices(Path(files.prices))
    recipes, of_recipes = read_recipes(Path(files.recipes))
    local, of_map = read_map(Path(files.tags))
    tags = Tags(recipes=recipes, deployments=tags_of(config), local=local)
    problems = [*of_profiles, *of_prices, *of_recipes, *of_map]
    if not of_profiles:
        problems += tags.unknown(profiles, files.roi_profiles)
        problems += _for_nobody(prices, profiles, source)
    return Known(
        profiles=profiles,
        prices=prices,
        tags=tags,
        burst=frozenset(group for group, tier in config.tiers.items() if tier == "burst"),
        problems=in_order(problems),
    )


class Kept:
    """The files as last read, for those who ask often: read again only once one has changed."""

    def __init__(self) -> None:
        # One value: threads that ask at once see a stamp with what was read under it.
        self._kept: tuple[tuple[Any, ...], Known] | None = None

    def read(self, config: Config) -> Known:
        """The files as they are now, under this revision of the configuration."""
        stamp = (config.revision, *_stamps(config.ledger))
        kept = self._kept
        if kept is None or kept[0] != stamp:
            kept = self._kept = (stamp, read(config.ledger, config))
        return kept[1]


def _stamps(files: LedgerFiles) -> Iterator[tuple[str, int, int]]:
    """Each file that is there, with its time and size."""
    single = (files.roi_profiles, files.prices, files.tags)
    for path in [*map(Path, single), *recipe_files(Path(files.recipes))]:
        with contextlib.suppress(FileNotFoundError):
            about = path.stat()
            yield str(path), about.st_mtime_ns, about.st_size


def _for_nobody(
    prices: Mapping[str, PriceList], profiles: Mapping[str, Profile], source: Source
) -> Iterator[Problem]:
    """Prices without a profile: they charge nothing, and may be those of another branch."""
    for roi in prices.keys() - profiles.keys():
        said = f"this price is for `{roi}`, which is no ROI profile{did_you_mean(roi, profiles)}"
        yield Problem(source.place((roi,)), "warning", "unknown-roi", said)
