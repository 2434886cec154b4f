"""Every code of the checker with its severity: one row a rule. docs/stacks.md says why each is one.

An error is what does not start, starts and serves something wrong, or breaks a promise of the node
(an open port, a secret in the file, a GPU taken twice). A warning is what a person should decide.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from common.problems import Place, Problem, Severity

CODES: Final[Mapping[str, Severity]] = {
    # reading
    "not-compose": "error",
    "unset-variable": "warning",
    "required-variable": "error",
    "variable-syntax": "error",
    "missing-dollar": "error",
    "env-file": "warning",
    # GPUs
    "gpu-all": "warning",
    "gpu-all-visible": "error",
    "gpu-visible-inside": "error",
    "gpu-order": "warning",
    "gpu-count": "warning",
    "gpu-count-and-ids": "error",
    "gpu-capabilities": "error",
    "gpu-ids": "error",
    "gpu-name": "error",
    "gpu-too-few": "error",
    "gpu-shared": "error",
    "gpu-memory": "error",
    # addresses
    "public-port": "error",
    "public-host": "error",
    "port-unserved": "error",
    "port-taken": "error",
    # images, secrets, privileges
    "image-tag": "error",
    "image-digest": "error",
    "literal-secret": "error",
    "secret-argument": "warning",
    "privileged": "warning",
    # files and memory
    "weights-writable": "error",
    "no-cache": "warning",
    "cache-shared": "warning",
    "no-shared-memory": "error",
    "shared-memory": "warning",
    "lane-limits": "warning",
    # engine settings that must fit each other
    "graph-list": "error",
    "graph-sparse": "warning",
    "request-cap": "warning",
    "mamba-slots": "error",
    "host-cache": "error",
    "draft-profile": "error",
    # health, order, stop
    "no-healthcheck": "warning",
    "health-start": "warning",
    "health-tool": "warning",
    "health-port": "error",
    "health-key": "error",
    "depends-started": "error",
    "depends-no-health": "error",
    "stop-grace": "warning",
    "restart": "warning",
    # against the routing file
    "no-service": "error",
    "served-name": "error",
    "served-name-differs": "warning",
    "engine-differs": "error",
    "context-length": "error",
    "key-needed": "error",
    "key-missing": "error",
    "key-differs": "error",
    "interactive-gpu": "error",
    "tier-on-demand": "error",
    "lane-on-demand": "warning",
}


def problem(place: Place, code: str, message: str) -> Problem:
    """A problem of this checker; its severity is its code's."""
    return Problem(place, CODES[code], code, message)
