"""`python -m bench.peers [NAME ...]`: install the peers of the comparison, each in its own venv.

They go to .bench/NAME, beside what the benchmark builds, and never into the gateway's .venv:
their dependencies are not ours. Versions are exact for what is named here.
"""

from __future__ import annotations

import subprocess
import sys
import tomllib
import venv

from bench.rig import BUILT, ROOT


def requirements() -> dict[str, tuple[str, ...]]:
    """Each peer's packages; LiteLLM in the release whose grammar the checker reads."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    return {
        # What `make stock` installs with hashes, for the tests.
        "litellm": tuple(project["dependency-groups"]["stock"]),
        "vllm-router": ("vllm-router==0.1.17",),
    }


def install(name: str) -> int:
    """Make .bench/NAME anew and fill it; pip's exit code."""
    folder = BUILT / name
    print(f"installing {name} into .bench/{name} ...", flush=True)
    venv.EnvBuilder(clear=True, symlinks=True).create(folder)
    pip = [sys.executable, "-m", "pip", "--python", str(folder / "bin" / "python")]
    quiet = ["--disable-pip-version-check", "--quiet"]
    return subprocess.run([*pip, "install", *quiet, *requirements()[name]], check=False).returncode


def main(names: list[str]) -> int:
    """Install the named peers, or all; 1 where one could not be."""
    known = requirements()
    if unknown := [name for name in names if name not in known]:
        print(f"unknown: {', '.join(unknown)}; known: {', '.join(known)}", file=sys.stderr)
        return 2
    failed = [name for name in names or known if install(name) != 0]
    for name in failed:
        print(f"{name} could not be installed: the comparison leaves it out", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
