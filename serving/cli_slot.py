"""`serving slot ...`: serve the control plane, and the commands that speak to it."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import Any, Final

from rich.console import Console

from common import logs
from common.problems import render
from serving.cli_tables import print_json, print_table
from serving.errors import Unusable
from serving.slot import shown
from serving.slot.ask import Asks
from serving.slot.follow import follow_load, follow_log
from serving.slot.settings import Settings, load

FILE: Final = "slot.yaml"
_URL: Final = "http://127.0.0.1:8767"


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the commands."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")

    def command(name: str, help_: str, *, talks: bool = True) -> argparse.ArgumentParser:
        one = actions.add_parser(name, help=help_, description=help_)
        if talks:
            one.add_argument("--url", help=f"the control plane (SLOT_URL, else {_URL})")
            one.add_argument("--key-env", metavar="NAME", default="SLOT_KEY", help="(SLOT_KEY)")
        return one

    serve = command("serve", "the control plane: find what runs, then serve the API", talks=False)
    serve.add_argument("-c", "--config", default=FILE, help=f"the slot file ({FILE})")
    serve.add_argument("--log-json", action="store_true", help="one JSON object a line")
    check = command("check", "every problem of a slot file", talks=False)
    check.add_argument("-c", "--config", default=FILE, help=f"the slot file ({FILE})")
    for name, help_ in (("status", "what is loaded, who waits"), ("list", "the recipes")):
        command(name, help_).add_argument("--json", action="store_true", help="the same as data")
    _up_arguments(command("up", "load a recipe, and wait until it serves"))
    _up_arguments(command("switch", "the same, without waiting"))
    down = command("down", "empty the slot; streams are waited for")
    down.add_argument("--force", action="store_true", help="end running streams now")
    log = command("logs", "what the engine says; secrets are hidden")
    log.add_argument("-f", "--follow", action="store_true", help="and what it says from now on")
    log.add_argument("-n", "--lines", type=int, default=50, help="5 to 200 (50)")
    log.add_argument("--recipe", metavar="ID", help="of its last start")
    command("bench", "one small timed completion").add_argument("recipe", nargs="?", metavar="ID")
    command("help", "a page for agents", talks=False)


def _up_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("recipe", metavar="ID")
    add("--ctx", type=int, metavar="N", help="tokens of context")
    add("--kv", metavar="X", help="the type of the KV cache")
    add("--preset", metavar="P", help="one of the recipe's presets")
    add("--confirm", action="store_true", help="also if streams run or a load goes on, after them")
    add("--force", action="store_true", help="at once: running streams are ended")
    add("--dry-run", action="store_true", help="print what would run, and run nothing")
    add("-c", "--config", default=FILE, help=f"the slot file, for --dry-run ({FILE}, if it exists)")


def run(args: argparse.Namespace) -> int:
    """Do what was asked for; the exit code. Raises Unusable."""
    if args.action == "serve":
        return _serve(args)
    if args.action == "check":
        return _check(args)
    if args.action == "help":
        print(Path(__file__).with_name("slot").joinpath("help.txt").read_text(), end="")
        return 0
    if getattr(args, "dry_run", False):
        return _dry_run(args)
    with Asks(args.url or os.environ.get("SLOT_URL") or _URL, os.environ.get(args.key_env)) as asks:
        return _ASKING[args.action](asks, args)


def _serve(args: argparse.Namespace) -> int:
    import uvloop

    from serving.slot.serve import serve

    settings = _settings(args.config)
    logs.configure(json=args.log_json)
    return uvloop.run(serve(settings))


def _check(args: argparse.Namespace) -> int:
    settings = _settings(args.config)
    print(f"{args.config}: no errors; slot {settings.slot} on {settings.url}")
    return 0


def _settings(file: str) -> Settings:
    loaded = load(file)
    if loaded.settings is None:
        raise Unusable(f"the slot file cannot be used\n{render(loaded.problems)}")
    return loaded.settings


def _dry_run(args: argparse.Namespace) -> int:
    from serving.slot.dry import dry_run

    settings = _settings(args.config) if Path(args.config).exists() else None
    print(dry_run(settings, args.recipe, ctx=args.ctx, kv=args.kv, preset=args.preset))
    return 0


def _status(asks: Asks, args: argparse.Namespace) -> int:
    found = asks.get("/api/slot/status")
    if args.json:
        print_json(found)
    else:
        print("\n".join(shown.status(found)))
    return 0


def _list(asks: Asks, args: argparse.Namespace) -> int:
    found = asks.get("/api/slot/recipes")
    if args.json:
        print_json(found)
        return 0
    print_table(shown.HEADS, shown.recipes(found))
    print("\n".join(shown.notes(found)))
    return 0


def _switch(asks: Asks, args: argparse.Namespace) -> int:
    job = asks.post("/api/slot/switch", _wanted(args))["job"]
    print(f"{job['recipe']}: {job['state']}")
    return 0


def _up(asks: Asks, args: argparse.Namespace) -> int:
    asks.post("/api/slot/switch", _wanted(args))
    return follow_load(asks, Console(stderr=True, highlight=False, markup=False))


def _wanted(args: argparse.Namespace) -> dict[str, Any]:
    names = ("recipe", "ctx", "kv", "preset", "confirm", "force")
    return {name: getattr(args, name) for name in names if getattr(args, name)}


def _down(asks: Asks, args: argparse.Namespace) -> int:
    job = asks.post("/api/slot/down", {"force": args.force})["job"]
    print(f"slot: {job['state']}")
    return 0


def _logs(asks: Asks, args: argparse.Namespace) -> int:
    asked = {"lines": str(args.lines)} | ({"recipe": args.recipe} if args.recipe else {})
    return follow_log(asks, asked, sys.stdout.write, follow=args.follow)


def _bench(asks: Asks, args: argparse.Namespace) -> int:
    from serving.slot.follow import until_measured

    asks.post("/api/slot/bench", {"recipe": args.recipe} if args.recipe else {})
    result = until_measured(asks)
    print(shown.bench(result))
    return 1 if result["error"] else 0


_ASKING: Final = {
    "status": _status,
    "list": _list,
    "up": _up,
    "switch": _switch,
    "down": _down,
    "logs": _logs,
    "bench": _bench,
}
