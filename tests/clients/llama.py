"""A real llama.cpp server with the scripted model: `python -m tests.clients.llama PORT`.

The model's answer is fixed by the last user message: see the scripted model's template.
"""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path

# Before the import: the default OpenMP barrier spins, and starves whoever shares the cores.
os.environ["OMP_WAIT_POLICY"] = "passive"

MODEL = Path(__file__).parents[1] / "data" / "scripted-model" / "model-f16.gguf"
SLOTS = 4
CONTEXT_TOKENS = 512  # a slot


def main() -> None:
    """Serve until the process is ended."""
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = str(MODEL)
    params.model_alias = {"scripted"}
    params.hostnames = ["127.0.0.1"]
    params.port = int(sys.argv[1])
    params.n_parallel = SLOTS
    params.n_ctx = CONTEXT_TOKENS * SLOTS
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
    params.embedding = True
    params.pooling_type = xllamacpp.llama_pooling_type.LLAMA_POOLING_TYPE_MEAN
    params.endpoint_slots = True
    params.api_keys = [os.environ["KEY_ENGINE"]]
    _server = xllamacpp.Server(params)  # must stay alive
    threading.Event().wait()


if __name__ == "__main__":
    main()
