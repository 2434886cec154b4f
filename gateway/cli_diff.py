"""`gateway diff`: what an edit would change, between files or git revisions of one file."""

from __future__ import annotations

import argparse
import subprocess
from dataclasses import asdict
from pathlib import Path

from gateway.cli_files import Unusable, complain, environ, load_file, usable
from gateway.cli_tables import print_json, print_table
from gateway.config.config import Config
from gateway.config.diff import Change, compare
from gateway.config.load import load_text


def diff(args: argparse.Namespace) -> int:
    """Print the differences; 1 if a side has errors or cannot be read."""
    try:
        old = _side(args, args.old)
        new = _side(args, args.file if args.new is None else args.new)
    except Unusable as error:
        return complain(str(error))
    changes = compare(old, new)
    if args.json:
        print_json({"old": old.path, "new": new.path, "changes": [asdict(c) for c in changes]})
    else:
        _print(changes)
    return 0


def _print(changes: tuple[Change, ...]) -> None:
    if not changes:
        print("no difference")
        return
    rows = [
        (c.section, c.subject, f"{c.what} (needs a restart)" if c.restart else c.what,
         c.before, c.after)
        for c in changes
    ]  # fmt: skip
    print_table(("about", "name", "what", "before", "after"), rows, quiet=2)


def _side(args: argparse.Namespace, given: str) -> Config:
    """One side: a file that exists, REVISION:PATH, or a revision of the file of -c."""
    if Path(given).exists():
        return usable(load_file(args, given), given, no_env=args.no_env)
    revision, colon, path = given.partition(":")
    if colon:
        text, name = _show(revision, path, Path()), given
    else:
        file = Path(args.file)
        text, name = _show(given, f"./{file.name}", file.parent), f"{given}:{args.file}"
    loaded = load_text(text, name, environ(args), check_env=not args.no_env)
    return usable(loaded, name, no_env=args.no_env)


def _show(revision: str, path: str, folder: Path) -> bytes:
    """The file as git has it in a revision. Raises Unusable where it does not."""
    what = f"{revision}:{path}"
    try:
        # `--end-of-options`: a revision that begins with a dash is still one.
        done = subprocess.run(
            ["git", "-C", str(folder), "show", "--end-of-options", what],
            capture_output=True,
            check=False,
            timeout=30,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Unusable(f"'{revision}' is no file, and git cannot be asked: {error}") from error
    if done.returncode != 0:
        said = done.stderr.decode(errors="replace").strip().splitlines()
        why = said[-1].removeprefix("fatal: ") if said else f"git ended with {done.returncode}"
        raise Unusable(f"'{revision}' is neither a file here nor a git revision with {path}: {why}")
    return done.stdout
