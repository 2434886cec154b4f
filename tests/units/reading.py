"""Units as systemd reads them: sections, keys that may come again, continued lines."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

from tests.ground.repository import ROOT

UNITS = ROOT / "serving" / "units"
FILES = sorted(UNITS.glob("*.service"))
PROGRAMS = "/opt/signalbox/bin/"

Settings = dict[str, list[str]]


def read(file: Path) -> dict[str, Settings]:
    """Section -> key -> its values in order."""
    found: dict[str, Settings] = {}
    section: Settings = {}
    for line in re.sub(r"\\\n\s*", "", file.read_text()).splitlines():
        if line.startswith("["):
            section = found.setdefault(line.strip("[]"), {})
        elif line and not line.startswith("#"):
            key, _, value = line.partition("=")
            section.setdefault(key, []).append(value)
    return found


def service(name: str) -> Settings:
    """The [Service] section of one of the shipped units."""
    return read(UNITS / f"signalbox-{name}.service")["Service"]


def one(settings: Settings, key: str) -> str:
    """The value of a key that is there once."""
    [value] = settings[key]
    return value


def variables(settings: Settings) -> dict[str, str]:
    """What the unit itself sets, before its environment file."""
    pairs = [word for line in settings["Environment"] for word in shlex.split(line)]
    return dict(pair.split("=", 1) for pair in pairs)


def words(settings: Settings, key: str = "ExecStart") -> list[str]:
    """A command's words with the unit's own variables in their places."""
    given = variables(settings)
    return [
        re.sub(r"\$\{(\w+)\}", lambda found: given[found[1]], word)
        for word in shlex.split(settings[key][0])
    ]


def seconds(value: str) -> float:
    """`60s` as a number."""
    [found] = re.findall(r"^(\d+)s$", value)
    return float(found)
