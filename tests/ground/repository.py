"""What the ground tests read: the files that are in git, or will be."""

from __future__ import annotations

import subprocess
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]


@cache
def files(*suffixes: str) -> tuple[Path, ...]:
    """Tracked files, and new ones that git does not ignore, with one of the suffixes (or all)."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    ).stdout.split("\0")
    found = (ROOT / name for name in listed if name and name.endswith(suffixes or ("",)))
    return tuple(sorted(path for path in found if path.is_file()))


def code() -> tuple[Path, ...]:
    """The product's own Python."""
    packages = tuple(ROOT / name for name in ("common", "gateway", "serving"))
    return tuple(
        p for p in files(".py") if p.is_relative_to(ROOT) and any(x in p.parents for x in packages)
    )


def name(path: Path) -> str:
    """A path as people write it: from the root of the repository."""
    return path.relative_to(ROOT).as_posix()
