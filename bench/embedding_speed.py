"""Texts per CPU-second by batch and length, and memory: `python -m bench.embedding_speed MODEL`.

MODEL is `minilm`, a folder, or `shape`: random weights in the shape of Qwen3-Embedding-0.6B, which
cost what the real ones cost (in .embed-venv: PYTHONPATH=. .embed-venv/bin/python -m ...).
"""

from __future__ import annotations

import argparse
import os
import resource
import tempfile
import time
from pathlib import Path
from typing import Any

SHAPE: dict[str, Any] = {
    "vocab_size": 151669,
    "hidden_size": 1024,
    "intermediate_size": 3072,
    "num_hidden_layers": 28,
    "num_attention_heads": 16,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "max_position_embeddings": 32768,
    "tie_word_embeddings": True,
    "eos_token_id": 0,
    "pad_token_id": 0,
}
LENGTHS = {"short": 12, "medium": 110}


def shape(folder: Path, dtype: str) -> None:
    """Write random weights; the tokenizer is the tests' small one."""
    import torch
    from transformers import Qwen3Config, Qwen3Model

    from tests.embeddings.tiny_model import tokenizer

    Qwen3Model(Qwen3Config(**SHAPE)).to(getattr(torch, dtype)).save_pretrained(folder)
    tokenizer().save(str(folder / "tokenizer.json"))


def rss_mb() -> float:
    """Resident memory now."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def measure(encoder: Any, seconds: float) -> None:
    """Print the table."""
    print("length    batch   texts/s   texts/CPU-s   tokens/CPU-s")
    for name, tokens in LENGTHS.items():
        for batch in (1, 8, 32):
            rows = [[7] * tokens for _ in range(batch)]
            encoder.encode(rows)
            wall, cpu, texts = time.perf_counter(), time.process_time(), 0
            while time.perf_counter() - wall < seconds:
                encoder.encode(rows)
                texts += batch
            wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
            figures = f"{texts / wall:>9.1f}{texts / cpu:>14.1f}{texts * tokens / cpu:>15.0f}"
            print(f"{name:<8}{batch:>7}{figures}", flush=True)


def long_text(encoder: Any, tokens: int) -> None:
    """A text in parts: how long one part takes, and what memory it needs."""
    took = []
    steps = encoder.steps([7] * tokens, encoder.traits.pass_tokens)
    part = encoder.traits.pass_tokens
    left = tokens
    while left:
        begun = time.perf_counter()
        left -= next(steps).tokens
        took.append(time.perf_counter() - begun)
    print(f"{tokens} tokens in {len(took)} parts of up to {part}: {sum(took):.1f} s, ", end="")
    print(f"first {took[0]:.2f} s, longest {max(took):.2f} s")


def main() -> None:
    """Read the arguments and run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--dtype", choices=["float32", "bfloat16"])
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--long", type=int, default=0, help="also one text of so many tokens")
    args = parser.parse_args()
    from serving.embeddings import processor

    processor.limit_threads(args.threads)
    from serving.embeddings.models import Wanted, loader

    with tempfile.TemporaryDirectory() as folder:
        name = args.model
        if name == "shape":
            shape(Path(folder), args.dtype or "float32")
            name = folder
        begun = time.process_time()
        encoder = loader(Wanted(model=name, threads=args.threads, dtype=args.dtype))()
        traits = encoder.traits
        print(f"{args.model}, {traits.dtype}, {args.threads} thread(s), ", end="")
        print(f"loaded in {time.process_time() - begun:.1f} CPU-s, {rss_mb():.0f} MB")
        measure(encoder, args.seconds)
        if args.long:
            long_text(encoder, args.long)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000
    print(f"memory now {rss_mb():.0f} MB, at its highest {peak:.0f} MB")


if __name__ == "__main__":
    main()
