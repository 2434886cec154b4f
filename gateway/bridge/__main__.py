"""The bridge's process: `python -m gateway.bridge SOCKET`. Started by child.py, and by nobody else.

It says "ready" on standard output once the library is loaded, and ends when its standard input
does: the gateway is gone then, whatever became of it.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import signal
import sys

import uvloop

from gateway.bridge import is_there, release
from gateway.bridge.child import READY


async def _serve(path: str) -> None:
    from gateway.bridge import surface
    from gateway.bridge.answers import Answers
    from gateway.bridge.direct import Direct
    from gateway.bridge.serve import Desk
    from gateway.http1.client import Client

    surface.settle()
    gc.collect()
    gc.freeze()  # what the library made is there for good: no need to look through it again
    client = Client()
    server = await asyncio.start_unix_server(Desk(Answers(Direct(client))), path)
    os.write(1, READY)
    with contextlib.suppress(asyncio.CancelledError):
        await _life_line()
    server.close()
    await client.close()
    os._exit(0)  # the library's threads are waited for by nobody


async def _life_line() -> None:
    reader = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    await reader.read()


if __name__ == "__main__":
    if not is_there():
        sys.exit(f"the bridge: litellm {release() or 'is not installed'}: not to be loaded")
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal sends it to all: the gateway decides
    uvloop.run(_serve(sys.argv[1]))
