"""`gateway serve`: hand the arguments to the process, on uvloop."""

from __future__ import annotations

import argparse

import uvloop

from gateway import process


def serve(args: argparse.Namespace) -> int:
    """Serve until told to stop; the server's exit code."""
    options = process.Options(
        config_path=args.file,
        host=args.host,
        port=args.port,
        watch=args.watch,
        insecure=args.insecure,
        env_file=args.env_file,
    )
    return uvloop.run(process.serve(options))
