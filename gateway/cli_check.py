"""`gateway check`: every problem of a file, and the time limits in force."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from common.problems import as_data, has_errors, render
from gateway.cli_files import NO_ENV_NOTE, Unusable, complain, counted, load_file
from gateway.cli_tables import print_json, print_table
from gateway.config.config import Config, Deployment
from gateway.config.load import Loaded


def check(args: argparse.Namespace) -> int:
    """Print the problems; 1 if one is an error or the file cannot be read."""
    try:
        loaded = load_file(args, args.file)
    except Unusable as error:
        return complain(str(error))
    if args.json:
        print_json(_data(args.file, loaded))
    else:
        _print(args, loaded)
    return 1 if has_errors(loaded.problems) else 0


def _print(args: argparse.Namespace, loaded: Loaded) -> None:
    if loaded.problems:
        print(render(loaded.problems))
    print(f"{args.file}: {counted(loaded.problems)}")
    if args.no_env:
        print(NO_ENV_NOTE, file=sys.stderr)
    if loaded.config is not None:
        print()
        heads = ("deployment", "timeout", "first content of a stream", "idle stream")
        print_table(heads, [_limits(d) for d in loaded.config.deployments])


def _limits(deployment: Deployment) -> tuple[str, str, str, str]:
    first = deployment.stream_timeout_s
    return (
        deployment.id,
        _seconds(deployment.timeout_s),
        _seconds(deployment.timeout_s if first is None else first),
        _seconds(deployment.stream_idle_timeout_s),
    )


def _seconds(limit: float | None) -> str:
    return f"{limit:g} s" if limit else "no limit"


def _data(path: str, loaded: Loaded) -> dict[str, Any]:
    problems = loaded.problems
    errors = sum(p.severity == "error" for p in problems)
    return {
        "file": path,
        "ok": errors == 0,
        "errors": errors,
        "warnings": len(problems) - errors,
        "problems": as_data(problems),
        "limits": [] if loaded.config is None else _limits_data(loaded.config),
    }


def _limits_data(config: Config) -> list[dict[str, Any]]:
    return [
        {
            "deployment": d.id,
            "timeout_s": d.timeout_s or None,
            "stream_timeout_s": (d.timeout_s if d.stream_timeout_s is None else d.stream_timeout_s)
            or None,
            "stream_idle_timeout_s": d.stream_idle_timeout_s,
        }
        for d in config.deployments
    ]
