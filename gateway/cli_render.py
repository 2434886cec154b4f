"""`gateway render --stock`: the file as one for the stock LiteLLM proxy."""

from __future__ import annotations

import argparse
from pathlib import Path

from common import source
from gateway.cli_files import Unusable, checked, complain
from gateway.config import known
from gateway.config.way_out import render as render_stock


def render(args: argparse.Namespace) -> int:
    """Print the file, or write it to --output; 1 if a file has errors or cannot be used."""
    try:
        config = checked(args)
        text = render_stock(
            config, source.read_file(args.file).data, release=known.litellm_keys().release
        )
        _put(text, args.output)
    except Unusable as error:
        return complain(str(error))
    return 0


def _put(text: str, output: str | None) -> None:
    if output is None:
        print(text, end="")
        return
    try:
        Path(output).write_text(text, encoding="utf-8")
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise Unusable(f"cannot write {output}: {why}; name another with -o") from error
