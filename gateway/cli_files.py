"""For the commands: the file and its variables, or one line that says why not."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping
from dataclasses import fields, replace
from pathlib import Path

from common.problems import Problem, has_errors, render
from gateway.config.config import Config, LedgerFiles
from gateway.config.load import Loaded, load, read_env_file

NO_ENV_NOTE = (
    "note: variables are not read (--no-env); each one that names a host counts as an upstream of "
    "its own, so the isolation proof holds only if they differ"
)


class Unusable(Exception):
    """A file cannot be used at all; the message is one line that says what to do."""


def complain(message: str) -> int:
    """Say one line on stderr; the exit code for it."""
    print(f"gateway: {message}", file=sys.stderr)
    return 1


def environ(args: argparse.Namespace) -> Mapping[str, str]:
    """The variables: the shell's, and over them the env file's. Raises Unusable."""
    if args.env_file is None:
        return os.environ
    try:
        return {**os.environ, **read_env_file(args.env_file)}
    except OSError as error:
        raise Unusable(
            f"cannot read the env file {args.env_file}: {error.strerror or error}; "
            f"name another with --env-file"
        ) from error
    except ValueError as error:  # a line that is none, or bytes that are no UTF-8
        raise Unusable(f"{error}; write NAME=value lines, in UTF-8") from error


def must_open(path: str) -> None:
    """Nothing, if the file can be opened. Raises Unusable."""
    try:
        with Path(path).open("rb"):
            pass
    except FileNotFoundError as error:
        raise Unusable(f"there is no file {path}; name yours with -c FILE") from error
    except IsADirectoryError as error:
        raise Unusable(f"{path} is a directory; name the YAML file in it") from error
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise Unusable(f"cannot read {path}: {why}; check its permissions") from error


def load_file(args: argparse.Namespace, path: str) -> Loaded:
    """The file as the arguments ask for it. Raises Unusable where it cannot be opened."""
    must_open(path)
    return load(path, environ(args), check_env=not args.no_env)


def checked(args: argparse.Namespace) -> Config:
    """The Config of the arguments' file. Raises Unusable, once its errors are told."""
    loaded = load_file(args, args.file)
    return usable(loaded, args.file, no_env=args.no_env)


def named(args: argparse.Namespace) -> Config:
    """As `checked`, for those who only read files that it names: no variable has to be set."""
    loaded = load_file(args, args.file)
    if loaded.config is None and not args.no_env:
        loaded = load(args.file, environ(args), check_env=False)
    return usable(loaded, args.file, no_env=False)


def ledger_files(args: argparse.Namespace, config: Config) -> LedgerFiles:
    """Where the ledger's files are: the options win. What they name must exist, but for prices."""
    names = [field.name for field in fields(LedgerFiles)]
    given = {name: value for name in names if (value := getattr(args, name)) is not None}
    for name, path in given.items():
        if name != "prices" and not Path(path).exists():
            raise Unusable(f"there is no {path}; name yours, or set gateway_settings.ledger.{name}")
    return replace(config.ledger, **given)


def usable(loaded: Loaded, name: str, *, no_env: bool) -> Config:
    """Its Config; errors are told on stderr first, warnings are left to `gateway check`."""
    if loaded.config is None:
        errors = [p for p in loaded.problems if p.severity == "error"]
        print(render(errors), file=sys.stderr)
        raise Unusable(f"{name} has {counted(loaded.problems)}: mend the errors first")
    if no_env:
        print(NO_ENV_NOTE, file=sys.stderr)
    return loaded.config


def counted(problems: tuple[Problem, ...]) -> str:
    """In words: "2 errors and 1 warning"."""
    errors = sum(p.severity == "error" for p in problems)
    warnings = len(problems) - errors
    parts = [
        f"{n} {word}{'' if n == 1 else 's'}"
        for n, word in ((errors, "error"), (warnings, "warning"))
        if n
    ]
    if not has_errors(problems):
        parts.insert(0, "no errors")
    return " and ".join(parts)
