"""The routing, asked of the gateway: `gateway routes --json` (docs/routes-json.md).

The stacks never read the routing file themselves: what a name reaches is the gateway's to say.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from common.problems import Place
from serving.errors import Unusable

SHAPE: Final = 1
_PATIENCE_S: Final = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployment:
    """What the stacks need of one deployment."""

    id: str
    tier: str
    tiers: frozenset[str]  # of every name that reaches it but by fallback
    host: str
    port: int
    provider: str
    engine: str | None
    served_name: str
    lane: str | None
    max_input_tokens: int | None
    keyed: bool
    key_variable: str | None
    place: Place


@dataclass(frozen=True, slots=True, kw_only=True)
class Routing:
    """The routing as one revision of the file has it."""

    file: str
    drain_s: float
    deployments: tuple[Deployment, ...]


def ask(file: str, environ: Mapping[str, str], env_file: str | None = None) -> Routing:
    """The routing of `file`, as the gateway reads it. Raises Unusable."""
    here = Path(sys.executable).parent / "gateway"
    program = str(here) if here.is_file() else shutil.which("gateway")
    if program is None:
        raise Unusable("the command `gateway` is not installed beside this one: install it there")
    command = [program, "routes", "--json", "-c", file]
    command += ["--env-file", env_file] if env_file else []
    try:
        done = subprocess.run(
            command,
            env={**os.environ, **environ},
            capture_output=True,
            text=True,
            timeout=_PATIENCE_S,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise Unusable(f"`gateway routes` took more than {_PATIENCE_S:.0f} s") from error
    if done.returncode != 0:
        said = done.stderr.strip()
        raise Unusable(f"the routing file has errors, so nothing can be held against it:\n{said}")
    return read(json.loads(done.stdout))


def read(data: Mapping[str, Any]) -> Routing:
    """The answer of `gateway routes --json`. Raises Unusable for a shape that is not known."""
    if data.get("shape") != SHAPE:
        raise Unusable(f"`gateway routes --json` has shape {data.get('shape')}, not {SHAPE}")
    file = str(data["file"])
    return Routing(
        file=file,
        drain_s=float(data["drain_s"]),
        deployments=tuple(_deployment(d, file) for d in data["deployments"] if _local(d)),
    )


def _local(d: Mapping[str, Any]) -> bool:
    """True for a deployment at an address of the file's own, in a tier that stays in the house."""
    return d["upstream"]["port"] is not None and d["api_base"] is not None and d["tier"] != "burst"


def _deployment(d: Mapping[str, Any], file: str) -> Deployment:
    direct = (n["tier"] for n in d["names"] if n["how"] not in ("fallback", "context"))
    return Deployment(
        id=d["id"],
        tier=d["tier"],
        tiers=frozenset(direct),
        host=d["upstream"]["host"],
        port=d["upstream"]["port"],
        provider=d["provider"],
        engine=d["engine"],
        served_name=d["served_name"],
        lane=d["lane"],
        max_input_tokens=d["max_input_tokens"],
        keyed=d["keyed"],
        key_variable=d["key_variable"],
        place=Place(file, d["line"], d["column"]),
    )
