"""The bridge: deployments that the LiteLLM library serves. The only folder that imports litellm.

    translate.py   the gateway's side: a Sender (exchange.py) that hands calls to a child process
    child.py       that process: when it starts, whether it lives, how it ends
    call.py        what the two say to each other
    __main__.py    the child's side starts here: serve.py takes calls, surface.py is litellm

Importing this package, or anything that the gateway's side needs, imports no litellm.
"""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec

# Releases that carried a credential stealer (March 2026) or an implant (October 2026).
BAD_RELEASES = frozenset({"1.82.7", "1.82.8", "1.107.0"})


def is_there() -> bool:
    """True if the library is installed, and no release that must never be imported."""
    return find_spec("litellm") is not None and not is_bad(release())


def release() -> str:
    """The installed release, read without importing it; "" where there is none."""
    try:
        return version("litellm")
    except PackageNotFoundError:
        return ""


def is_bad(name: str) -> bool:
    """True for a release that stole what it could, or that is no final one."""
    return name in BAD_RELEASES or not name.replace(".", "").isdigit()
