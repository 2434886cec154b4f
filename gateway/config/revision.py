"""Which state of the file this is: its content, and git's commit where git knows the file."""

from __future__ import annotations

import hashlib
import os
import subprocess
from pathlib import Path

from gateway.config.config import Revision


def of_text(text: bytes) -> Revision:
    """The revision of content alone."""
    return Revision(sha256=hashlib.sha256(text).hexdigest())


def of_file(path: str, text: bytes) -> Revision:
    """The revision of `text` as read from `path`; a file that git does not track has no commit."""
    found = of_text(text)
    file = Path(path).absolute()
    if _git(file, "ls-files", "--error-unmatch", "--", file.name) is None:
        return found
    commit = _git(file, "rev-parse", "--short", "HEAD")
    changed = _git(file, "status", "--porcelain", "--", file.name)
    return Revision(sha256=found.sha256, commit=commit or None, dirty=bool(changed))


def _git(file: Path, *arguments: str) -> str | None:
    """What git says about the folder of `file`; None without git, or where it refuses."""
    environ = {**os.environ, "GIT_OPTIONAL_LOCKS": "0"}
    try:
        done = subprocess.run(
            ["git", "-C", str(file.parent), *arguments],
            capture_output=True,
            text=True,
            timeout=5,
            check=False,
            env=environ,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None
