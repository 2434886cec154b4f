"""The command `gateway`: arguments, printing, exit codes.

Exit codes: 0 well; 1 problems were found, or a file cannot be read; 2 wrong arguments.

Each command lives in a `cli_*.py` of its own, imported when it is run: `gateway check` must not pay
for the HTTP server, and nothing here may import litellm.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from typing import get_args

from gateway import burst_check, cli_usage
from gateway.config.config import Dialect

DEFAULT_FILE = "config.yaml"
_ENV_HELP = "NAME=value lines for the file's os.environ/NAME; they win over the shell's"
_NO_ENV_HELP = (
    "work without the variables: each one that names a host counts as an upstream of its own"
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code. Wrong arguments end the process with 2."""
    args = _parser().parse_args(argv)
    try:
        code = _run(args)
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader has gone (`gateway routes | head`): Python would complain at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        return 130
    return code


def _run(args: argparse.Namespace) -> int:  # noqa: PLR0911 -- one for each command
    match args.command:
        case "serve":
            from gateway import cli_serve

            return cli_serve.serve(args)
        case "check":
            from gateway import cli_check

            return cli_check.check(args)
        case "routes":
            from gateway import cli_routes

            return cli_routes.routes(args)
        case "aliases":
            from gateway import cli_aliases

            return cli_aliases.aliases(args)
        case "explain":
            from gateway import cli_explain

            return cli_explain.explain(args)
        case "diff":
            from gateway import cli_diff

            return cli_diff.diff(args)
        case "render":
            from gateway import cli_render

            return cli_render.render(args)
        case "restart":
            from gateway import cli_restart

            return cli_restart.restart(args)
        case "burst-check":
            return burst_check.run(args)
        case "usage" if args.action == "price":
            from gateway import cli_prices

            return cli_prices.price(args)
        case "usage" if args.cost and args.action is None:
            from gateway import cli_ledger

            return cli_ledger.run(args)
        case _:
            from gateway import cli_records

            return cli_records.run(args)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="gateway",
        description="One URL for a small inference box: tiers, tasks, caps and fallbacks from one "
        "YAML file.",
        epilog="Exit codes: 0 well, 1 problems found, 2 wrong arguments.",
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    _serve(commands.add_parser("serve", help="serve the file", description=_SERVE))
    _restart(commands.add_parser("restart", help="restart, or go back", description=_RESTART))
    _check(commands.add_parser("check", help="every problem of a file", description=_CHECK))
    _routes(commands.add_parser("routes", help="who reaches what", description=_ROUTES))
    _aliases(commands.add_parser("aliases", help="every name", description=_ALIASES))
    _explain(commands.add_parser("explain", help="one decision", description=_EXPLAIN))
    _diff(
        commands.add_parser(
            "diff",
            help="what an edit would change",
            description=_DIFF,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
    )
    _render(commands.add_parser("render", help="for the stock proxy", description=_RENDER))
    burst_check.arguments(
        commands.add_parser("burst-check", help="one call to the cloud", description=_BURST)
    )
    usage = commands.add_parser("usage", help="tokens counted so far", description=cli_usage.USAGE)
    _file(usage, "the file that names the activity log")
    cli_usage.arguments(usage)
    _env(usage)
    _json(usage)
    _activity(commands.add_parser("activity", help="recent requests", description=_ACTIVITY))
    return parser


_SERVE = "Serve the file until SIGTERM or Ctrl-C. SIGHUP reads it again; a bad one changes nothing."
_RESTART = """Restart the gateway that serves from a run folder, detached from this terminal: the
file is checked, the old process drains, the new one is watched until it is live; if it is not,
the last file that served is served again. Exit 1 then, or if the file has errors."""
_CHECK = "Every problem of a file at once, as file:line:column. Exit 1 if one is an error."
_ROUTES = """For every name a client can send: the upstreams it reaches, how, and under which bound;
then the bounded overflows of each interactive upstream. The file must be free of errors."""
_ALIASES = """Every name a client can send: a group, an alias or a task; its group and tier; what
serves it, or which recipe on which slot; and whether it may have that recipe loaded."""
_EXPLAIN = """The decision for one request, without a call: its route, the candidates in order with
reasons, who is left out and why, and the groups that follow if all of them fail."""
_DIFF = """What an edit would change: names, reach, fallbacks, deployments, grants, settings.

OLD and NEW are each
  a file               gateway diff old.yaml new.yaml
  a git revision       gateway diff HEAD~1 HEAD -c config.yaml
  REVISION:PATH        gateway diff HEAD:config.yaml config.yaml
NEW may be left out: the file of -c as it is on disk.
A file that exists is taken as a file. Keys are never shown.

Exit 0 if both sides are free of errors, with or without differences; 1 if one has errors or
cannot be read."""
_RENDER = """The file as one for the stock LiteLLM proxy: the settings that keep it safest there,
tasks as aliases task/NAME, comments that say what is lost. Variables stay os.environ references."""
_BURST = """One small call to an OpenAI-compatible service: its models are listed, the first that
matches is asked. Exit 0 well, 1 nothing matches or the call failed, 2 no key."""
_ACTIVITY = (
    "The last requests in the activity log, newest last, and their sums by client and model."
)


def _serve(parser: argparse.ArgumentParser) -> None:
    _file(parser)
    parser.add_argument("--host", help="address to listen on; wins over the file's `listen`")
    parser.add_argument("--port", type=_port, help="port to listen on; wins over the file's")
    parser.add_argument("--watch", action="store_true", help="reload when the file changes")
    parser.add_argument(
        "--insecure",
        action="store_true",
        help="serve a file without any key, on a loopback address only",
    )
    parser.add_argument("--env-file", metavar="FILE", help=_ENV_HELP + "; read again on reload")


def _restart(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "-c", "--config", dest="file", metavar="FILE", help="default: the same file"
    )
    parser.add_argument("--run", default="run", metavar="DIR", help="its run folder (default: run)")
    parser.add_argument(
        "--wait", type=float, default=30.0, metavar="S", help="how long it may take to be live"
    )
    parser.add_argument(
        "--patience", type=float, default=60.0, metavar="S", help="how long the old one may drain"
    )


def _check(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", help="the file to check")
    _env(parser)
    _json(parser)


def _routes(parser: argparse.ArgumentParser) -> None:
    _file(parser)
    _env(parser)
    _json(parser, "the shape is in docs/routes-json.md")


def _aliases(parser: argparse.ArgumentParser) -> None:
    _file(parser)
    _env(parser)
    _json(parser)


def _explain(parser: argparse.ArgumentParser) -> None:
    _file(parser)
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--task", help="a task, as X-Task names it")
    what.add_argument("--model", help="a model group, an alias or task/NAME")
    parser.add_argument(
        "--prompt-tokens", type=_count, default=0, metavar="N", help="length of the prompt"
    )
    parser.add_argument("--dialect", choices=get_args(Dialect), default="chat", help="(chat)")
    parser.add_argument("--key", metavar="NAME", help="the client key that asks, by its name")
    _env(parser)
    _json(parser)


def _diff(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("old", metavar="OLD")
    parser.add_argument("new", metavar="NEW", nargs="?")
    _file(parser, "the file whose revisions are meant")
    _env(parser)
    _json(parser)


def _render(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", help="the file to render")
    parser.add_argument("--stock", action="store_true", required=True, help="for the stock proxy")
    parser.add_argument("-o", "--output", metavar="OUT", help="write there (standard output)")
    _env(parser)


def _activity(parser: argparse.ArgumentParser) -> None:
    _file(parser, "the file that names the activity log")
    parser.add_argument("--window", choices=("1h", "24h"), default="1h", help="(1h)")
    parser.add_argument("--limit", type=_count, default=20, metavar="N", help="requests shown (20)")
    _env(parser)
    _json(parser)


def _file(parser: argparse.ArgumentParser, what: str = "the file") -> None:
    parser.add_argument(
        "-c", "--config", dest="file", metavar="FILE", default=DEFAULT_FILE,
        help=f"{what} ({DEFAULT_FILE})",
    )  # fmt: skip


def _env(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--env-file", metavar="FILE", help=_ENV_HELP)
    parser.add_argument("--no-env", action="store_true", help=_NO_ENV_HELP)


def _json(parser: argparse.ArgumentParser, note: str = "the same as data") -> None:
    parser.add_argument("--json", action="store_true", help=note)


def _port(text: str) -> int:
    if text.isascii() and text.isdigit() and int(text) < 65536:
        return int(text)
    raise argparse.ArgumentTypeError(f"'{text}' is no port: a number from 0 to 65535")


def _count(text: str) -> int:
    if text.isascii() and text.isdigit():
        return int(text)
    raise argparse.ArgumentTypeError(f"'{text}' is no count: a whole number from 0")


if __name__ == "__main__":
    sys.exit(main())
