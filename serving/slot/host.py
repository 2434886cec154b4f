"""The slot file's `host` as the engines take it, with its references to the environment filled."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from serving.engines.engine import Host
from serving.slot.settings import REFERENCE, Settings


def host_of(settings: Settings) -> Host:
    """Facts of this machine; a variable that is not set leaves its entry out.

    Paths become absolute: an engine may start in another folder, and docker would take a relative
    one for the name of a volume.
    """
    given = settings.host
    return Host(
        models=_folder(given.models),
        hf_home=_folder(given.hf_home or str(Path.home() / ".cache/huggingface")),
        runner=_folder(given.runner),
        llama_server=_program(given.llama_server),
        ds4_server=_program(given.ds4_server),
        docker=_program(given.docker),
        kits={name: _folder(path) for name, path in given.kits.items()},
        python=_program(given.python or sys.executable),
        env={name: value for name, text in given.env.items() if (value := _value(text))},
    )


def _folder(path: str) -> str:
    return str(Path(path).expanduser().absolute())


def _program(name: str) -> str:
    """A name alone is looked up in the PATH."""
    return _folder(name) if "/" in name else name


def _value(text: str) -> str | None:
    if not text.startswith(REFERENCE):
        return text
    return os.environ.get(text.removeprefix(REFERENCE))
