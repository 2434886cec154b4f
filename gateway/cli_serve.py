"""`gateway serve`: hand the arguments to the process that serves, on uvloop."""

from __future__ import annotations

import argparse

import uvloop

from gateway import process
from gateway.cli_files import Unusable, complain, environ, must_open


def serve(args: argparse.Namespace) -> int:
    """Serve until told to stop; the process's exit code. 1 if a file cannot be read."""
    try:
        must_open(args.file)
        environ(args)  # read again by the process, at start and at every reload
    except Unusable as error:
        return complain(str(error))
    options = process.Options(
        config_path=args.file,
        host=args.host,
        port=args.port,
        watch=args.watch,
        insecure=args.insecure,
        env_file=args.env_file,
    )
    return uvloop.run(process.serve(options))
