"""Paths of recipes on one machine: {models} and {hf_home}, and relative paths below models."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable

from serving.engines.engine import Host


def filled(text: str, *, models: str, hf_home: str) -> str:
    """The text with its placeholders; other braces, such as those of JSON, stay."""
    return text.replace("{models}", models).replace("{hf_home}", hf_home)


def on_host(text: str, host: Host) -> str:
    """Any text of a recipe as this machine's processes read it."""
    return filled(text, models=host.models, hf_home=host.hf_home)


def all_on_host(texts: Iterable[str], host: Host) -> tuple[str, ...]:
    """The same of each."""
    return tuple(on_host(text, host) for text in texts)


def path_on_host(text: str, host: Host, *, under: str | None = None) -> str:
    """A path of a recipe: what is not absolute stands below `under`, else below the models."""
    path = on_host(text, host)
    if path != text or posixpath.isabs(path):
        return path
    return posixpath.join(under or host.models, path)
