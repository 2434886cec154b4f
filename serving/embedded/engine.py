"""One embedded engine: llama.cpp's own HTTP server, alone in its process.

Run as a child: `python -m serving.embedded.engine SETTINGS`, the settings as JSON, the key in
ENGINE_KEY (an argument can be read by every user of the machine; without one it asks for none). A
crash of llama.cpp, or an instruction that this processor does not have, ends this process and
nobody else's.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from typing import Any


def main(settings: dict[str, Any], key: str) -> None:
    """Serve until a signal ends the process. Raises where the model cannot be loaded."""
    # Before the import: OpenMP's default waits by spinning, which costs a factor of 5 to 15 as
    # soon as the gateway wants the same core.
    os.environ["OMP_WAIT_POLICY"] = "passive"
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = settings["model"]
    params.model_alias = {settings["served_name"]}
    params.hostnames = ["127.0.0.1"]
    params.port = settings["port"]
    if key:
        params.api_keys = [key]
    params.n_ctx = settings["context_tokens"] * settings["parallel"]  # llama.cpp counts all slots
    params.n_parallel = settings["parallel"]
    params.cpuparams.n_threads = settings["threads"]
    params.cpuparams_batch.n_threads = settings["threads"]
    params.endpoint_metrics = True
    params.endpoint_slots = True
    server = xllamacpp.Server(
        params
    )  # returns once the model is loaded; /health says 503 till then
    print(f"serving on {server.listening_address}", flush=True)
    while True:
        signal.pause()  # SIGTERM ends the process, and with it the server's threads


if __name__ == "__main__":
    main(json.loads(sys.argv[1]), os.environ.pop("ENGINE_KEY", ""))
