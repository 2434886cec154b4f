"""`python -m bench.peers [NAME ...]`: install the peers of the comparison, each in its own venv.

They go to .bench/NAME, beside what the benchmark builds, and never into the gateway's .venv:
their dependencies are not ours. LiteLLM comes from requirements/stock.txt, as for the tests that
boot it; vllm-router in the exact version named here.
"""

from __future__ import annotations

import subprocess
import sys
import venv

from bench.rig import BUILT
from tools import stock

VLLM_ROUTER = "vllm-router==0.1.17"
NAMES = ("litellm", "vllm-router")


def install(name: str) -> int:
    """Fill .bench/NAME; pip's exit code."""
    if name == "litellm":
        return stock.main()
    folder = BUILT / name
    print(f"installing {VLLM_ROUTER} into .bench/{name} ...", flush=True)
    venv.EnvBuilder(clear=True, symlinks=True).create(folder)
    pip = [sys.executable, "-m", "pip", "--python", str(folder / "bin" / "python")]
    quiet = ["--disable-pip-version-check", "--quiet"]
    return subprocess.run([*pip, "install", *quiet, VLLM_ROUTER], check=False).returncode


def main(names: list[str]) -> int:
    """Install the named peers, or all; 1 where one could not be."""
    if unknown := [name for name in names if name not in NAMES]:
        print(f"unknown: {', '.join(unknown)}; known: {', '.join(NAMES)}", file=sys.stderr)
        return 2
    failed = [name for name in names or NAMES if install(name) != 0]
    for name in failed:
        print(f"{name} could not be installed: the comparison leaves it out", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
