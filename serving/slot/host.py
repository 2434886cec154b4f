"""The slot file's `host` as the engines take it, with its references to the environment filled."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from serving.engines.engine import Host
from serving.slot.settings import REFERENCE, Settings


def host_of(settings: Settings) -> Host:
    """Facts of this machine; a variable that is not set leaves its entry out."""
    given = settings.host
    return Host(
        models=given.models,
        hf_home=given.hf_home or str(Path.home() / ".cache/huggingface"),
        runner=given.runner,
        llama_server=given.llama_server,
        ds4_server=given.ds4_server,
        docker=given.docker,
        kits=given.kits,
        python=given.python or sys.executable,
        env={name: value for name, text in given.env.items() if (value := _value(text))},
    )


def _value(text: str) -> str | None:
    if not text.startswith(REFERENCE):
        return text
    return os.environ.get(text.removeprefix(REFERENCE))
