"""`serving embeddings serve` and `serving embeddings gate`: arguments, and what is printed."""

from __future__ import annotations

import argparse
import asyncio
import json
import os

from common import logs
from serving.embeddings.share import PRIORITIES, Share, cores, take
from serving.errors import Unusable


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the two commands."""
    commands = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    _serve_arguments(commands.add_parser("serve", help="an embedding server on the CPU"))
    _gate_arguments(commands.add_parser("gate", help="may this server take that one's place?"))


def run(args: argparse.Namespace) -> int:
    """Do what was asked for; the exit code."""
    return _gate(args) if args.action == "gate" else _serve(args)


def _serve_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--model", default="qwen3", help="minilm, qwen3, or a folder of the Qwen3 family (qwen3)")
    add("--served-name", help="what clients call it (the model's own name)")
    add("--host", default="127.0.0.1", help="the address to listen on (127.0.0.1)")
    add("--port", type=int, default=8017, help="the port (8017)")
    add("--threads", type=_positive, default=4, help="threads of the model (4)")
    add("--priority", choices=PRIORITIES, default="normal", help="beside other processes (normal)")
    add("--cores", type=_cores, metavar="LIST", help="the only ones it runs on, as 2,4-7 (all)")
    add("--dtype", choices=["float32", "bfloat16"], help="else: by the weights and the processor")
    add("--max-tokens", type=_positive, help="of one text")
    add("--pass-tokens", type=_positive, help="of one pass: less holds up others for less long")
    add("--waiting-tokens", type=_positive, help="above this many waiting, 429")
    add("--matryoshka-from", type=_positive, metavar="N", help="`dimensions` from N up")
    add("--truncate", action="store_true", help="cut what is too long, instead of refusing it")
    add("--max-inputs", type=_positive, default=2048, help="in one request (2048)")
    add("--drain-s", type=_positive, default=30, help="for what is under way at SIGTERM (30)")
    add("--api-key-env", metavar="NAME", help="the variable that holds the key clients must send")
    add("--log-json", action="store_true", help="one JSON object a line")


def _gate_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--reference", required=True, metavar="URL", help="the server that is right, with /v1")
    add("--candidate", required=True, metavar="URL", help="the one that wants its place")
    add("--min", type=float, default=0.99, help="the lowest cosine that passes (0.99)")
    add("--reference-model", help="the model's name there (else the first it lists)")
    add("--candidate-model", help="the model's name there (else the first it lists)")
    add("--reference-key-env", metavar="NAME", help="the variable that holds the reference's key")
    add("--candidate-key-env", metavar="NAME", help="the variable that holds the candidate's key")
    add("--json", action="store_true", help="the same as data")


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("must be above 0")
    return number


def _cores(text: str) -> frozenset[int]:
    try:
        return cores(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError("must be numbers and ranges, as 2,4-7") from error


def _serve(args: argparse.Namespace) -> int:
    from serving.embeddings import processor

    # Before numpy, torch and onnxruntime read the one, and start threads that inherit the other.
    processor.limit_threads(args.threads)
    take(Share(priority=args.priority, cores=args.cores or frozenset()))
    import uvloop

    from serving.embeddings.app import Limits
    from serving.embeddings.models import Wanted, loader
    from serving.embeddings.server import Options, serve

    wanted = Wanted(
        model=args.model,
        served_name=args.served_name,
        threads=args.threads,
        dtype=args.dtype,
        max_tokens=args.max_tokens,
        pass_tokens=args.pass_tokens,
        waiting_tokens=args.waiting_tokens,
        smallest_cut=args.matryoshka_from,
    )
    options = Options(
        host=args.host,
        port=args.port,
        limits=Limits(inputs=args.max_inputs, truncate=args.truncate),
        drain_s=args.drain_s,
        key=_key(args.api_key_env),
    )
    logs.configure(json=args.log_json)
    return uvloop.run(serve(options, loader(wanted)))


def _gate(args: argparse.Namespace) -> int:
    from serving.embeddings.gate import table
    from serving.embeddings.gate.ask import Party
    from serving.embeddings.gate.run import compare

    reference = Party(
        url=args.reference, model=args.reference_model, key=_key(args.reference_key_env)
    )
    candidate = Party(
        url=args.candidate, model=args.candidate_model, key=_key(args.candidate_key_env)
    )
    verdict = asyncio.run(compare(reference, candidate, least=args.min))
    print(json.dumps(table.as_data(verdict), indent=2) if args.json else table.as_text(verdict))
    return 0 if verdict.passed else 1


def _key(variable: str | None) -> str | None:
    """The key in a variable: as an argument, every user of the machine could read it."""
    if variable is None:
        return None
    key = os.environ.get(variable)
    if not key:
        raise Unusable(f"the variable {variable} is not set or empty")
    return key
