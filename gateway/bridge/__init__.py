"""The bridge: deployments that the LiteLLM library serves. The only folder that imports litellm.

    translate.py   the gateway's side: a Sender (exchange.py) that hands calls to a child process
    child.py       that process: when it starts, whether it lives, how it ends
    call.py        what the two say to each other
    __main__.py    the child's side starts here: serve.py takes calls, surface.py is litellm

Importing this package, or anything that the gateway's side needs, imports no litellm.
"""

from __future__ import annotations

from importlib.util import find_spec


def is_there() -> bool:
    """True if the library is installed, so that a bridge can be loaded."""
    return find_spec("litellm") is not None
