"""The bridge's process: started once, waited for within a bound, ended with the gateway.

A process and not a thread: importing litellm keeps the interpreter's lock for up to half a second
at a time, and each bridged call costs milliseconds (design-decisions/018). Its standard input is
the gateway's life line: when the gateway ends, however it ends, the process sees the end of it.

    absent ── start() ──> starting ── says "ready" ──> ready
       ^                     |                           |
       └──── it ended ───────┴───────────────────────────┘   the next call starts another
"""

from __future__ import annotations

import asyncio
import os
import re
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

import structlog

_log = structlog.get_logger("gateway")
READY_WITHIN_S = 60.0  # how long a request waits for a bridge that is being loaded
_STOP_S = 3.0
RESTART_S = 5.0  # a bridge that dies at once is not started in a loop
READY = b"ready\n"

# What the process may know of the gateway's surroundings: where Python and certificates are, and
# what the clouds' own libraries read. No proxy, no address of a provider, no key of a client.
_KEPT = re.compile(
    r"PATH|HOME|USER|LANG|LC_\w+|TZ|TMPDIR|VIRTUAL_ENV|LD_LIBRARY_PATH|PYTHON\w+"
    r"|SSL_CERT_(FILE|DIR)|REQUESTS_CA_BUNDLE"
    r"|AWS_(ACCESS_KEY_ID|SECRET_ACCESS_KEY|SESSION_TOKEN|(DEFAULT_)?REGION|PROFILE|ROLE_ARN)"
    r"|AWS_(WEB_IDENTITY_TOKEN|SHARED_CREDENTIALS|CONFIG)_FILE|GOOGLE_APPLICATION_CREDENTIALS|VERTEXAI_(PROJECT|LOCATION)"
    r"|AZURE_(TENANT_ID|CLIENT_\w+|FEDERATED_TOKEN_FILE)|\w+_API_KEY"
)
# litellm's own switches against calling home, set before its import.
OFFLINE: Mapping[str, str] = {
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "LITELLM_LOCAL_ANTHROPIC_BETA_HEADERS": "True",
    "LITELLM_LOCAL_BLOG_POSTS": "True",
    "LITELLM_LOCAL_POLICY_TEMPLATES": "True",
    "LITELLM_LOCAL_AUTOROUTER_PRESETS": "True",
    "LITELLM_TELEMETRY": "False",
    "LITELLM_MODE": "PRODUCTION",  # it would read a .env file
    "LITELLM_LOG": "ERROR",
    "DISABLE_AIOHTTP_TRUST_ENV": "True",
    "HF_HUB_OFFLINE": "1",
    "AWS_EC2_METADATA_DISABLED": "true",
}


class BridgeGone(Exception):
    """There is no bridge to take a call: it does not start, or not in time."""


class Child:
    """The process. `address` is where it takes calls, once it is ready."""

    def __init__(
        self,
        environ: Mapping[str, str] | None = None,
        *,
        ready_within_s: float = READY_WITHIN_S,
        restart_s: float = RESTART_S,
    ) -> None:
        self._environ = os.environ if environ is None else environ
        self._ready_within_s, self._restart_s = ready_within_s, restart_s
        self._starting: asyncio.Task[None] | None = None
        self._process: asyncio.subprocess.Process | None = None
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._started_at = -restart_s
        self._closed = False

    @property
    def pid(self) -> int | None:
        """The process that lives, if one does."""
        lives = self._process is not None and self._process.returncode is None
        return self._process.pid if lives and self._process is not None else None

    def start(self) -> None:
        """Begin to load the bridge, unless it is there or on its way. Returns at once."""
        if self._closed or self.pid is not None:
            return
        if self._starting is None or self._starting.done():
            self._starting = asyncio.create_task(self._start())

    async def address(self) -> str:
        """Where to call, as soon as it is ready. Raises BridgeGone within `ready_within_s`."""
        if self.pid is None:
            self.start()
        if self._starting is None or self._closed:
            raise BridgeGone("the bridge is closed")
        try:
            # Shielded: a client that leaves must not stop what others wait for.
            await asyncio.wait_for(asyncio.shield(self._starting), self._ready_within_s)
        except TimeoutError:
            said = f"the bridge is not ready after {self._ready_within_s:.0f} s"
            raise BridgeGone(said) from None
        return self._path()

    async def close(self) -> None:
        """End the process: its standard input closes, then it is killed."""
        self._closed = True
        if self._starting is not None:
            self._starting.cancel()
            await asyncio.gather(self._starting, return_exceptions=True)
        process, self._process = self._process, None
        if process is not None:
            await _end(process)
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None

    def _path(self) -> str:
        if self._folder is None:
            raise BridgeGone("the bridge is closed")
        return str(Path(self._folder.name) / "calls")

    async def _start(self) -> None:
        loop = asyncio.get_running_loop()
        await asyncio.sleep(max(0.0, self._started_at + self._restart_s - loop.time()))
        self._started_at = loop.time()
        if self._folder is None:
            self._folder = tempfile.TemporaryDirectory(prefix="signalbox-")  # for this user alone
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "gateway.bridge",
            self._path(),
            env=surroundings(self._environ),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
        try:
            assert process.stdout is not None  # noqa: S101 -- it was asked for
            said = await process.stdout.readline()
        except BaseException:  # cancelled too: no process may stay behind
            await _end(process)
            raise
        if said != READY:
            await _end(process)
            raise BridgeGone("the bridge ended while it loaded: its own output says why")
        self._process = process
        _log.info("bridge", pid=process.pid, ready_after_s=round(loop.time() - self._started_at, 1))


async def _end(process: asyncio.subprocess.Process) -> None:
    if process.stdin is not None:
        process.stdin.close()
    try:
        await asyncio.wait_for(process.wait(), _STOP_S)
    except TimeoutError:
        process.kill()
        await process.wait()


def surroundings(environ: Mapping[str, str]) -> dict[str, str]:
    """The environment of the bridge's process."""
    kept = {name: value for name, value in environ.items() if _KEPT.fullmatch(name)}
    here = str(Path(__file__).parents[2])
    path = [here, *filter(None, kept.get("PYTHONPATH", "").split(os.pathsep))]
    return {**kept, **OFFLINE, "PYTHONPATH": os.pathsep.join(path)}
