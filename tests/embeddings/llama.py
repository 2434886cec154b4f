"""The model served by llama.cpp with `--pooling last`: `llama.py MODEL.gguf PORT`."""

from __future__ import annotations

import os
import signal
import sys


def main(model: str, port: int) -> None:
    os.environ["OMP_WAIT_POLICY"] = "passive"
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = model
    params.model_alias = {"tiny"}
    params.hostnames = ["127.0.0.1"]
    params.port = port
    params.n_ctx = 4096
    params.n_parallel = 4
    params.n_batch = params.n_ubatch = 1024
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
    params.embedding = True
    params.pooling_type = xllamacpp.llama_pooling_type.LLAMA_POOLING_TYPE_LAST
    # Keys and values in half precision, its default, are a difference of 1e-4 in the vectors.
    params.cache_type_k = params.cache_type_v = xllamacpp.ggml_type.GGML_TYPE_F32
    params.flash_attn_type = xllamacpp.llama_flash_attn_type.LLAMA_FLASH_ATTN_TYPE_DISABLED
    server = xllamacpp.Server(params)
    while server:
        signal.pause()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
