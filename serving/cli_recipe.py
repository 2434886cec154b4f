"""`serving recipe ...`: the recipe files, listed, checked, written, and moved on their way."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Final, cast, get_args

from common.problems import as_data, has_errors, render
from serving import cli_recipe_shown as shown
from serving.cli_tables import print_json, print_table
from serving.errors import Unusable
from serving.recipes import lifecycle, prices, roi
from serving.recipes.edit import read_text, write_text
from serving.recipes.fit import did_you_mean
from serving.recipes.load import DRAFTS, FOLDER, load_folder
from serving.recipes.recipe import Loaded, Recipe
from serving.recipes.scaffold import recipe_id, scaffold, service
from serving.recipes.schema import EngineName, Lifecycle

_FIELDS: Final = ("id", "name", "family", "version", "params", "provider", "model", "in", "out")


def arguments(parser: argparse.ArgumentParser) -> None:
    """The commands under `serving recipe`."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    folder = argparse.ArgumentParser(add_help=False)
    folder.add_argument(
        "--recipes", metavar="FOLDER", default=str(FOLDER), help="the folder of recipes (our own)"
    )

    def action(name: str, said: str) -> argparse.ArgumentParser:
        return actions.add_parser(name, help=said, description=said, parents=[folder])

    one = action("list", "every recipe, a line each")
    one.add_argument("--drafts", action="store_true", help="with those of drafts/")
    one.add_argument("--json", action="store_true", help="the same as data")
    one = action("show", "one recipe, with what it leaves to defaults")
    one.add_argument("id", metavar="ID", help="its id or an alias")
    one.add_argument("--json", action="store_true", help="the same as data")
    one = action("check", "every problem of the files, as file:line:column; exit 1 for an error")
    one.add_argument("--json", action="store_true", help="the same as data")
    one = action("scaffold", "write a draft for a model of the catalog")
    one.add_argument("catalog_id", metavar="LAB/SLUG", help="such as qwen/qwen3.8-27b")
    one.add_argument("engine", choices=get_args(EngineName), metavar="ENGINE", help=_engines())
    one = action("promote", "one step on, or to LIFECYCLE; a draft leaves drafts/")
    one.add_argument("id", metavar="ID")
    one.add_argument("to", metavar="LIFECYCLE", nargs="?", choices=get_args(Lifecycle))
    one = action("roi", "set the cloud identity that its tokens are held against")
    one.add_argument("id", metavar="ID")
    one.add_argument("roi_id", metavar="ROI_ID")
    one = action("roi-new", "add a cloud identity and its prices, and set it")
    one.add_argument("recipe", metavar="ID")
    one.add_argument("fields", metavar="KEY=VALUE", nargs="+", help=f"{', '.join(_FIELDS)}")
    one.add_argument(
        "--prices", metavar="FILE", default=str(prices.FILE), help=f"prices ({prices.FILE})"
    )


def _engines() -> str:
    return ", ".join(get_args(EngineName))


def run(args: argparse.Namespace) -> int:
    """Do what is asked; 1 where files have errors. Raises Unusable."""
    folder = Path(args.recipes)
    if not folder.is_dir():
        raise Unusable(f"there is no folder {folder}")
    return _ACTIONS[args.action](args, _short(folder))


def _short(folder: Path) -> Path:
    """As a person here would write it: places begin with this."""
    return folder.relative_to(Path.cwd()) if folder.is_relative_to(Path.cwd()) else folder


def _list(args: argparse.Namespace, folder: Path) -> int:
    loaded = load_folder(folder, drafts=args.drafts)
    if args.json:
        print_json(shown.listed(loaded))
    else:
        print_table(shown.HEADS, [shown.row(recipe) for recipe in loaded.recipes.values()])
    return _told(loaded)


def _show(args: argparse.Namespace, folder: Path) -> int:
    recipe = _found(args.id, folder)
    if args.json:
        print_json(shown.data(recipe))
    else:
        print("\n".join(shown.lines(recipe)))
    return 0


def _check(args: argparse.Namespace, folder: Path) -> int:
    loaded = load_folder(folder, drafts=True)
    if args.json:
        print_json({"ok": not has_errors(loaded.problems), "problems": as_data(loaded.problems)})
    else:
        if loaded.problems:
            print(render(loaded.problems))
        print(shown.summed_up(loaded))
    return 1 if has_errors(loaded.problems) else 0


def _scaffold(args: argparse.Namespace, folder: Path) -> int:
    name = recipe_id(args.catalog_id, args.engine)
    for path in (folder / DRAFTS / f"{name}.yaml", folder / f"{name}.yaml"):
        if path.exists():
            raise Unusable(f"there is already a recipe {path}")
    path = folder / DRAFTS / f"{name}.yaml"
    write_text(path, scaffold(args.catalog_id, args.engine))
    print(path)
    named, text = service(args.catalog_id)
    if args.engine == "eugr" and not (folder / named).exists():
        write_text(folder / named, text)
        print(folder / named)
    return 0


def _promote(args: argparse.Namespace, folder: Path) -> int:
    recipe = _found(args.id, folder)
    to = cast(Lifecycle | None, args.to)
    path = lifecycle.promote(recipe, folder, to, today=_today())
    print(f"{path}: {recipe.lifecycle} -> {to or lifecycle.NEXT[recipe.lifecycle]}")
    return 0


def _roi(args: argparse.Namespace, folder: Path) -> int:
    recipe = _found(args.id, folder)
    lifecycle.set_roi(recipe, folder, args.roi_id)
    print(f"{recipe.file}: roi_profile {args.roi_id}")
    return 0


def _roi_new(args: argparse.Namespace, folder: Path) -> int:
    """The identity into git's file, the prices into the machine's, the recipe last."""
    file = Path(args.prices)
    recipe = _found(args.recipe, folder)
    given = _given(args.fields)
    profile = roi.Profile.model_validate({k: v for k, v in given.items() if k not in ("in", "out")})
    known, problems = roi.read_profiles(folder)
    if has_errors(problems):
        raise Unusable(render(problems))
    if profile.id in known:
        raise Unusable(f"the ROI profile '{profile.id}' is there: `serving recipe roi` sets it")
    cost = {"in_per_m": _number("in", given), "out_per_m": _number("out", given)}
    lifecycle.with_roi(recipe, profile.id)  # what cannot be set in the end is refused before it
    with prices.locked(file):
        new = prices.with_price(prices.read_prices(file), profile.id, today=_today(), **cost)
        identities = folder / roi.FILE
        text = read_text(identities) if identities.exists() else ""
        write_text(identities, roi.added(text, profile))
        prices.write_prices(file, new)
    lifecycle.set_roi(recipe, folder, profile.id)
    print(f"{identities}: {profile.id}\n{file}: {profile.id}\n{recipe.file}: {profile.id}")
    return 0


def _given(words: list[str]) -> dict[str, str]:
    pairs = {key: value for key, _, value in (word.partition("=") for word in words)}
    for key in pairs:
        if key not in _FIELDS:
            raise Unusable(f"`{key}=` is not known{did_you_mean(key, _FIELDS)}")
    if lacks := [key for key in _FIELDS if not pairs.get(key)]:
        raise Unusable(f"roi-new needs {' '.join(f'{key}=' for key in lacks)}")
    return pairs


def _number(key: str, given: Mapping[str, str]) -> Decimal:
    try:
        number = Decimal(given[key])
    except InvalidOperation as error:
        raise Unusable(f"`{key}={given[key]}` is no price a million tokens") from error
    if not (number.is_finite() and 0 <= number < 1_000_000):
        raise Unusable(f"`{key}={given[key]}` is no price a million tokens")
    return number


def _found(name: str, folder: Path) -> Recipe:
    """A recipe or a draft by its id or alias. Raises Unusable with its errors, or the nearest."""
    loaded = load_folder(folder, drafts=True)
    recipe = loaded.find(name)
    if recipe is not None:
        return recipe
    own = [p for p in loaded.problems if Path(p.place.file).stem == name and p.severity == "error"]
    if own:
        raise Unusable(f"recipe '{name}' cannot be used:\n{render(own)}")
    raise Unusable(f"there is no recipe '{name}'{did_you_mean(name, loaded.recipes)}")


def _told(loaded: Loaded) -> int:
    errors = sum(p.severity == "error" for p in loaded.problems)
    if errors:
        said = f"{errors} error{'' if errors == 1 else 's'} in files: `serving recipe check`"
        print(f"serving: {said}", file=sys.stderr)
    return 1 if errors else 0


def _today() -> str:
    return datetime.now(UTC).date().isoformat()


_ACTIONS: Final[Mapping[str, Callable[[argparse.Namespace, Path], int]]] = {
    "list": _list,
    "show": _show,
    "check": _check,
    "scaffold": _scaffold,
    "promote": _promote,
    "roi": _roi,
    "roi-new": _roi_new,
}
