"""A launch as text, for people: what `--dry-run` prints. Secrets are never shown."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from typing import Final

from serving.engines.container import volume
from serving.engines.engine import Launch

HIDDEN: Final = "(hidden)"
_VARIABLE: Final = re.compile(r"(?:^|_)(?:KEY|APIKEY|TOKEN|SECRET|PASSWORD|PASSWD)$", re.IGNORECASE)
_OPTION: Final = re.compile(r"^--?(?:[\w-]+-)?(?:key|token|secret|password)$", re.IGNORECASE)


def render(launch: Launch) -> str:
    """One fact a line, the command one option a line; ends without a line end."""
    return "\n".join(_lines(launch))


def _lines(launch: Launch) -> Iterator[str]:
    yield f"port       {launch.port}"
    yield f"context    {launch.ctx}"
    if launch.cwd:
        yield f"folder     {launch.cwd}"
    if launch.container:
        yield f"container  {launch.container} (up if one of: {', '.join(launch.names)})"
    for name, value in launch.env.items():
        yield f"env        {name}={HIDDEN if _VARIABLE.search(name) else value}"
    for mount in launch.mounts:
        yield f"mount      {volume(mount)}"
    yield from _command("run", launch.argv)
    for step in launch.stop:
        yield from _command("stop", step)
    if launch.logs:
        yield from _command("logs", launch.logs)
    for need in launch.needs:
        yield f"needs      {need.path}"


def _command(what: str, argv: Sequence[str]) -> Iterator[str]:
    """Options and what follows them on a line each, as a shell would take them."""
    lines: list[list[str]] = [[]]
    for word in masked(argv):
        ended = len(lines[-1]) > 1 and lines[-1][0].startswith("-")
        if len(argv) > 8 and (word.startswith("-") or ended):
            lines.append([])
        lines[-1].append(shlex.quote(word))
    texts = [" ".join(line) for line in lines]
    yield f"{what:<10} " + " \\\n             ".join(texts)


def masked(argv: Sequence[str]) -> tuple[str, ...]:
    """The words of a command without the values of keys: `--api-key X`, `KEY=X`."""
    shown: list[str] = []
    hide = False
    for word in argv:
        name, equals, _ = word.partition("=")
        if hide:
            shown.append(HIDDEN)
        elif equals and (_VARIABLE.search(name) or _OPTION.search(name)):
            shown.append(f"{name}={HIDDEN}")
        else:
            shown.append(word)
        hide = bool(_OPTION.search(word)) and not equals
    return tuple(shown)
