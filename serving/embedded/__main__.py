"""`make run`: a model, two embedded engines and the gateway, with one line to try.

Exit codes: the gateway's own; 1 where there is no model, no free port or no engine; 2 for wrong
arguments.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from pathlib import Path

from rich.console import Console

from serving.artifacts.packaged import ModelError, cache_dir, packaged
from serving.embedded.engines import EngineError
from serving.embedded.model import SMOLLM2, named
from serving.embedded.node import ROUTING_FILE, Node, Options, port_is_free

HINT = """
  URL   {url}
  key   {key}   (made for this run; {env_file} has all of them)

  curl -N {url}/chat/completions \\
    -H "Authorization: Bearer {key}" -H "Content-Type: application/json" \\
    -d '{{"model": "chat", "stream": true, "messages": [
          {{"role": "user", "content": "Name three fruits."}}]}}'

  "model": "slot-one" and then "slot-two" swap the one model that is loaded between the two.
  Ctrl-C stops the gateway and its engines.
"""


def main(arguments: list[str] | None = None) -> int:
    """Run the node until it is stopped; its exit code."""
    options = _parser().parse_args(arguments)
    console = Console(stderr=True, highlight=False, soft_wrap=True)
    if not port_is_free(options.port):
        return _refuse(f"port {options.port} is in use: PORT=9100 make run takes another one")
    try:
        model = named(options.model) if options.model else packaged(SMOLLM2, cache_dir(), console)
        node = Node(
            Options(
                model=model,
                port=options.port,
                run_dir=options.run_dir,
                routing_file=_short(options.config),
            ),
            said=console.print,
        )
        return asyncio.run(node.run(serving=_show))
    except KeyboardInterrupt:  # before the node takes signals: during the download
        return 130
    except (ModelError, EngineError) as error:
        return _refuse(str(error))


def _show(node: Node) -> None:
    print(HINT.format(url=node.url, key=node.key, env_file=node.env_file), flush=True)


def _short(path: Path) -> Path:
    """As a person here would write it: the gateway's messages about the file begin with this."""
    return path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path


def _refuse(message: str) -> int:
    print(f"signalbox: {message}", file=sys.stderr)
    return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m serving.embedded", description="The gateway with two embedded engines."
    )
    parser.add_argument(
        "--model",
        metavar="PATH.gguf",
        default=os.environ.get("SIGNALBOX_GGUF"),
        help="any GGUF with a chat template (default: SIGNALBOX_GGUF, else SmolLM2-135M)",
    )
    parser.add_argument("--port", type=int, default=9000, help="the gateway's port (9000)")
    parser.add_argument("--run-dir", type=Path, default=Path("run"), help="logs, keys (run/)")
    parser.add_argument("-c", "--config", type=Path, default=ROUTING_FILE, help="the routing file")
    return parser


if __name__ == "__main__":
    sys.exit(main())
