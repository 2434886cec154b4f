"""`serving stacks check`: every problem of compose files, and of what they are to the routing."""

from __future__ import annotations

import argparse


def arguments(parser: argparse.ArgumentParser) -> None:
    """The commands under `serving stacks`."""
    commands = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    commands.add_parser("check", help="every problem of compose files")


def run(args: argparse.Namespace) -> int:
    """Run the command that the arguments name."""
    del args
    return 0
