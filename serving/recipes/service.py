"""A service file of the recipe runner: what it runs in its container, as a template.

The runner fills `{name}` from the file's defaults, over which its own options go; braces that are
meant as braces are doubled, as in the JSON of `--speculative-config`.
"""

from __future__ import annotations

import string
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from serving.recipes.schema import Block, Env, Text, Texts


class ServiceFile(Block):
    """One service file, in the runner's own words."""

    recipe_version: Text
    name: Text
    container: Text  # the image, not the container's name
    command: Text
    description: Text | None = None
    model: Text | None = None
    pull_image: bool = False
    cluster_only: bool = False
    solo_only: bool = False
    mods: Texts = ()
    build_args: Texts = ()
    defaults: dict[Text, str | int | float | bool] = {}
    env: Env = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """A service file that can be run; `path` is what the runner is given."""

    path: str
    file: ServiceFile

    def command(self, over: Mapping[str, Any]) -> str:
        """The command as the runner would fill it in."""
        return self.file.command.format(**{**self.file.defaults, **over})


def template_fault(file: ServiceFile, given: frozenset[str]) -> str | None:
    """Why the runner could not fill in the command; `given` are the names that its options set."""
    try:
        names = list(_names(file.command))
    except ValueError as error:
        return f"its braces do not close ({error}): double the literal ones, `{{{{` and `}}}}`"
    for name in names:
        if not name.isidentifier():
            return f"`{{{name}` is no name: double braces that are meant as braces, `{{{{`"
        if name not in file.defaults and name not in given:
            return f"`{{{name}}}` has no value under `defaults`"
    return None


def _names(command: str) -> Iterator[str]:
    for _, name, spec, conversion in string.Formatter().parse(command):
        if name is not None:
            yield name + (f":{spec}" if spec else "") + (f"!{conversion}" if conversion else "")
