"""What this processor is good at, and how much of it the model may use."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Literal

Dtype = Literal["float32", "bfloat16"]
_CPUINFO = Path("/proc/cpuinfo")
BF16_FLAGS = frozenset({"avx512_bf16", "amx_bf16", "bf16"})  # x86-64, x86-64, aarch64


def flags(cpuinfo: Path = _CPUINFO) -> frozenset[str]:
    """The processor's flags as Linux names them; none where it does not say."""
    try:
        lines = cpuinfo.read_text(encoding="utf-8").splitlines()
    except OSError:
        return frozenset()
    for line in lines:
        name, _, value = line.partition(":")
        if name.strip() in ("flags", "Features"):
            return frozenset(value.split())
    return frozenset()


def dtype_for(found: frozenset[str]) -> Dtype:
    """What a model of bfloat16 weights computes in.

    Without instructions for it, bfloat16 takes 5 to 8 times as long as float32.
    """
    return "bfloat16" if BF16_FLAGS & found else "float32"


def limit_threads(threads: int) -> None:
    """Hold libraries to `threads`; before they are imported, since they read this once.

    OpenMP waits by spinning unless it is told not to, which takes a core from whoever shares it.
    """
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ[name] = str(threads)
    os.environ["OMP_WAIT_POLICY"] = "passive"
    os.environ["TOKENIZERS_PARALLELISM"] = "false"  # else: a thread for every core
