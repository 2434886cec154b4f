"""The command `serving`: one row for each group of commands, each in a `cli_*.py` of its own.

A group's module has `arguments(parser)`, which declares its arguments, and `run(args)`, which does
what they say and returns the exit code. It is imported only when it is asked for: checking a
compose file must not pay for an embedding server.

Exit codes: 0 well; 1 problems were found, or a file cannot be used; 2 wrong arguments.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Final, cast

from serving.errors import ServingError


@dataclass(frozen=True, slots=True)
class Command:
    """A group of commands: its name, its module and one line of help."""

    name: str
    module: str
    help: str


COMMANDS: Final = (
    Command("stacks", "serving.cli_stacks", "compose files: read and check"),
    Command("slot", "serving.cli_slot", "the one slot: serve it, load, swap, look"),
    Command("recipe", "serving.cli_recipe", "recipe files: list, check, write, promote"),
    Command("embeddings", "serving.cli_embeddings", "the CPU query lane, and the gate"),
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code. Wrong arguments end the process with 2."""
    given = list(sys.argv[1:] if argv is None else argv)
    parser = _parser(next((word for word in given if not word.startswith("-")), ""))
    args = parser.parse_args(given)
    try:
        code = cast(int, import_module(args.module).run(args))
        sys.stdout.flush()
    except ServingError as error:
        print(f"serving: {error}", file=sys.stderr)
        return 1
    except BrokenPipeError:
        # The reader has gone (`serving stacks check | head`): Python would complain at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        return 130
    return code


def _parser(asked: str) -> argparse.ArgumentParser:
    """All groups by name; the arguments of the one that is asked for."""
    parser = argparse.ArgumentParser(
        prog="serving",
        description="What stands behind the gateway: stacks, engines, embeddings.",
        epilog="Exit codes: 0 well, 1 problems found, 2 wrong arguments.",
    )
    groups = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for command in COMMANDS:
        group = groups.add_parser(command.name, help=command.help, description=command.help)
        group.set_defaults(module=command.module)
        if command.name == asked:
            import_module(command.module).arguments(group)
    return parser


if __name__ == "__main__":
    sys.exit(main())
