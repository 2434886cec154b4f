"""`make stock`: the stock LiteLLM proxy in a venv of its own, for the tests of tests/stock.

Beside what the benchmark builds, in .bench/litellm, and never in the gateway's .venv: its packages
are not ours. What is locked in requirements/stock.txt is installed, with hashes; a venv that
`python -m bench.peers litellm` made is brought to the same versions. Takes about a minute, once.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LOCK = ROOT / "requirements/stock.txt"
FOLDER = ROOT / ".bench/litellm"


def is_current(folder: Path = FOLDER, lock: Path = LOCK) -> bool:
    """True if the venv holds this lock."""
    stamp = folder / "lock.sha256"
    return stamp.is_file() and stamp.read_text() == _digest(lock)


def install(folder: Path = FOLDER, lock: Path = LOCK) -> int:
    """Make the venv, or bring it to the lock; pip's exit code."""
    python = folder / "bin" / "python"
    if not python.exists():
        venv.EnvBuilder(clear=True, symlinks=True).create(folder)
    command = [sys.executable, "-m", "pip", "--python", str(python)]
    quiet = ["--disable-pip-version-check", "--quiet", "--no-input"]
    locked = ["install", "--require-hashes", "--no-deps", "--no-compile", "-r", str(lock)]
    code = subprocess.run([*command, *quiet, *locked], check=False).returncode
    if code == 0:
        (folder / "lock.sha256").write_text(_digest(lock))
    return code


def _digest(lock: Path) -> str:
    return hashlib.sha256(lock.read_bytes()).hexdigest()


def main() -> int:
    """Install what is missing; 0 at once where nothing is."""
    if is_current():
        return 0
    print(f"installing requirements/{LOCK.name} into .bench/litellm ...", flush=True)
    return install()


if __name__ == "__main__":
    sys.exit(main())
