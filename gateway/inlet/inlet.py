"""The inlet: the server itself. Listens, keeps the connections, and gives each request its task.

Why there is one: design-decisions/021-a-small-http-server-of-our-own.md.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Awaitable, Callable, Iterable

from gateway.inbound import Inbound
from gateway.inlet.arrival import Arrival
from gateway.inlet.connection import Connection
from gateway.inlet.pages import App, serve_page
from gateway.outbox import Outbox

# The standard library's: its tracebacks show no values, and lose their secrets on the way out.
_log = logging.getLogger("gateway.inlet")


class Inlet:
    """Serves POSTs to `paths` by `relay`, and everything else by the ASGI app `pages`.

    `keep_alive_s` should be above that of clients: they close first, so nothing is lost.
    """

    def __init__(
        self,
        relay: Callable[[Inbound], Awaitable[None]],
        pages: App,
        paths: Iterable[str],
        *,
        outbox: Outbox | None = None,
        keep_alive_s: float = 75.0,
        head_s: float = 30.0,
        body_s: float = 60.0,
    ) -> None:
        self._relay, self._pages = relay, pages
        self.paths = {path.encode(): path for path in paths}  # by how they are nearly always sent
        self._inference = frozenset(self.paths.values())
        self._keep_alive_s, self._head_s, self._body_s = keep_alive_s, head_s, body_s
        self._tick_s = min(5.0, keep_alive_s / 4, head_s / 4, body_s / 4)
        self.outbox = outbox or Outbox()
        self.connections: set[Connection] = set()
        self.draining = False  # each answer closes its connection
        self._listener: asyncio.Server | None = None
        self._timer: asyncio.TimerHandle | None = None

    async def open(self, sock: socket.socket) -> None:
        """Listen on a bound socket, which is ours from now on."""
        loop = asyncio.get_running_loop()
        self._listener = await loop.create_server(lambda: Connection(self, loop), sock=sock)
        self._tick(loop)

    async def close(self) -> None:
        """Close all of it; requests that still run are cancelled and seen ended."""
        if self._timer is not None:
            self._timer.cancel()
        if self._listener is not None:
            self._listener.close()
        running = [connection.shut() for connection in tuple(self.connections)]
        tasks = [task for task in running if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def serve(self, arrival: Arrival) -> None:
        """Have one request answered. Whatever happens, its connection does not hang."""
        self.outbox.running += 1
        try:
            if arrival.path in self._inference and arrival.method == b"POST":
                await self._relay(arrival)
            else:
                await serve_page(self._pages, arrival)
        except Exception:  # noqa: BLE001 -- the edge of a request: the others go on
            _log.exception("a request failed")
        finally:
            self.outbox.running -= 1
            if not arrival.ended and not arrival.gone:
                arrival.cut()

    def _tick(self, loop: asyncio.AbstractEventLoop) -> None:
        """One timer for all connections; a limit is exact to a fraction of itself."""
        for connection in tuple(self.connections):
            connection.tick(self._tick_s, self._keep_alive_s, self._head_s, self._body_s)
        self._timer = loop.call_later(self._tick_s, self._tick, loop)
