"""`serving stacks check`: every problem of compose files, and of what they are to the routing."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from common.problems import Problem, as_data, has_errors, render
from serving.errors import Unusable
from serving.stacks import routing
from serving.stacks.check import check
from serving.stacks.compose import Stack, env_file, own_env_file, read_stack
from serving.stacks.launch import is_gateway

FOLDER: Final = "compose"
_CHECK: Final = """Every problem of compose files that stand on one host, as file:line:column.

Variables come from the shell, then from --env-file, as in docker compose; without one, from
NAME.env or .env beside each file, or from the template of either (NAME.env.example).
With --routing the files are held against the gateway's file, which `gateway routes` reads: its
variables are the shell's, those of the gateway's service, if one of the files has it, and those of
--routing-env-file. Exit 1 if one problem is an error. The codes are in docs/stacks.md."""


def arguments(parser: argparse.ArgumentParser) -> None:
    """The commands under `serving stacks`."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    one = actions.add_parser(
        "check",
        help="every problem of compose files",
        description=_CHECK,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    one.add_argument("files", metavar="FILE", nargs="*", help=f"compose files ({FOLDER}/*.yaml)")
    one.add_argument("--env-file", action="append", metavar="FILE", help="variables of compose")
    one.add_argument("--routing", metavar="FILE", help="the gateway's file")
    one.add_argument("--routing-env-file", metavar="FILE", help="variables of the gateway's file")
    one.add_argument("--production", action="store_true", help="every image by its digest")
    one.add_argument("--json", action="store_true", help="the same as data")


def run(args: argparse.Namespace) -> int:
    """Print the problems; 1 if one is an error. Raises Unusable."""
    files = args.files or _own_files()
    shared = _variables(args.env_file)
    stacks = [_stack(file, shared) for file in files]
    own = _gateway_variables(stacks)
    asked = None
    if args.routing:
        asked = routing.ask(args.routing, own, args.routing_env_file)
        own |= _variables([args.routing_env_file]) or {} if args.routing_env_file else {}
    problems = check(stacks, asked, variables={**os.environ, **own}, production=args.production)
    if args.json:
        print(json.dumps(_data(files, problems), indent=2))
    else:
        _print(files, problems)
    return 1 if has_errors(problems) else 0


def _own_files() -> list[str]:
    files = sorted(str(path) for path in Path(FOLDER).glob("*.yaml"))
    if not files:
        raise Unusable(f"there is no {FOLDER}/*.yaml here: name the files")
    return files


def _variables(files: Sequence[str] | None) -> dict[str, str] | None:
    """What the named env files hold; None where none is named. Raises Unusable."""
    if not files:
        return None
    values: dict[str, str] = {}
    for file in files:
        try:
            values |= env_file(file)
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", None) or error
            raise Unusable(f"cannot read the env file {file}: {why}") from error
    return values


def _stack(file: str, shared: Mapping[str, str] | None) -> Stack:
    own = own_env_file(file) if shared is None else None
    values = (_variables([own]) if own else shared) or {}
    return read_stack(file, {**values, **os.environ})


def _gateway_variables(stacks: Sequence[Stack]) -> dict[str, str]:
    """The variables that the gateway's own service would start with."""
    found = (s for stack in stacks for s in stack.services if is_gateway(s))
    return {n: v.value for s in found for n, v in s.environment.items() if v.value is not None}


def _print(files: Sequence[str], problems: Sequence[Problem]) -> None:
    if problems:
        print(render(problems))
    errors = sum(p.severity == "error" for p in problems)
    warnings = len(problems) - errors
    said = f"{len(files)} file{'' if len(files) == 1 else 's'}: "
    said += f"{errors or 'no'} error{'' if errors == 1 else 's'}"
    if warnings:
        said += f" and {warnings} warning{'' if warnings == 1 else 's'}"
    print(said, file=sys.stdout)


def _data(files: Sequence[str], problems: tuple[Problem, ...]) -> dict[str, object]:
    errors = sum(p.severity == "error" for p in problems)
    return {
        "files": list(files),
        "ok": errors == 0,
        "errors": errors,
        "warnings": len(problems) - errors,
        "problems": as_data(problems),
    }
