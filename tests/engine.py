"""A scripted engine on a real socket: it does what a test says, and notes all that reaches it.

    a = FakeEngine("a", script=[error(503), RESET], otherwise=Say(("Hi",)))

answers 503, then resets, then speaks well for ever. See tests/README.md.
"""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Any, Literal, Self

from tests.engine_answers import Answer, error, reply
from tests.engine_says import Say
from tests.engine_wire import Connection, Received

Play = Answer | Callable[[Received], Answer]
Phase = Literal["ready", "loading", "listed", "closed", "hang"]
LOADING = reply(
    {"error": {"message": "Loading model", "type": "unavailable_error", "code": 503}}, 503
)


class FakeEngine:
    """One engine. Use it as an async context manager, or let `gateway()` start and stop it.

    `script` holds one play a request, in order; `otherwise` answers the rest. A play is an
    answer, or a function of the request that returns one. `status` is short for an engine that
    answers every request with that error. `held` keeps every answer back until `release`.
    """

    def __init__(
        self,
        name: str = "engine",
        *,
        otherwise: Play | None = None,
        script: Iterable[Play] = (),
        status: int | None = None,
        phase: Phase = "ready",
        held: bool = False,
        idle_close_s: float | None = None,
        host: str = "127.0.0.1",
        port: int = 0,
        models: tuple[str, ...] = ("served",),
    ) -> None:
        self.name = name
        self.otherwise: Play = otherwise or (Say() if status is None else error(status))
        self.script = list(script)
        self.phase: Phase = phase
        self.requests: list[Received] = []  # POSTs
        self.probes: list[Received] = []  # everything else
        self.connections: list[Connection] = []
        self.running = 0
        self.peak = 0  # most requests at once
        self._held = held
        self._free = 0
        self._idle_s = idle_close_s
        self._host, self._port = host, port
        self._models = models
        self._server: asyncio.Server | None = None
        self._change = asyncio.Condition()

    @property
    def port(self) -> int:
        """The port it listens on; it stays the same when the port is closed and opened again."""
        return self._port

    @property
    def url(self) -> str:
        """The `api_base` for a file."""
        host = f"[{self._host}]" if ":" in self._host else self._host
        return f"http://{host}:{self._port}/v1"

    @property
    def bodies(self) -> list[Any]:
        """The decoded bodies of all requests."""
        return [received.json for received in self.requests]

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        await self.stop()

    async def start(self) -> None:
        """Take a port, and listen on it unless the phase is `closed`."""
        family = socket.AF_INET6 if ":" in self._host else socket.AF_INET
        sock = socket.socket(family, socket.SOCK_STREAM)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        sock.bind((self._host, self._port))
        self._port = sock.getsockname()[1]
        if self.phase == "closed":
            sock.close()
            return
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(self._connection, sock=sock, backlog=1024)

    async def stop(self) -> None:
        """Close the port and every connection."""
        if self._server is not None:
            self._server.close()
            self._server = None
        for connection in self.connections:
            connection.transport.abort()

    async def become(self, phase: Phase) -> None:
        """Change the loading phase: `closed` and back closes and opens the port."""
        was, self.phase = self.phase, phase
        if phase == "closed":
            await self.stop()
        elif was == "closed":
            await self.start()

    async def arrived(self, count: int, within_s: float = 5.0) -> Received:
        """Wait until `count` requests have arrived in all; returns the last of them."""
        try:
            async with asyncio.timeout(within_s), self._change:
                await self._change.wait_for(lambda: len(self.requests) >= count)
        except TimeoutError:
            raise AssertionError(
                f"{self.name}: {len(self.requests)} requests arrived, not {count}"
            ) from None
        return self.requests[count - 1]

    async def release(self, count: int | None = None) -> None:
        """Let `count` held requests go, or this and every later one."""
        async with self._change:
            if count is None:
                self._held = False
            else:
                self._free += count
            self._change.notify_all()

    async def hold(self) -> None:
        """Hold requests again, from the next on."""
        self._held = True

    def _connection(self) -> Connection:
        connection = Connection(
            len(self.connections) + 1, self._serve, idle_s=self._idle_s, hang=self.phase == "hang"
        )
        self.connections.append(connection)
        return connection

    async def _serve(self, received: Received) -> Answer:
        if received.method != "POST":
            self.probes.append(received)
            return self._probe(received.path)
        if self.phase != "ready":
            self.requests.append(received)
            return LOADING
        play = self.script.pop(0) if self.script else None
        await self._enter(received)
        async with self._change:
            while self._held and not self._free:
                await self._change.wait()
            self._free -= self._held
        if play is None:
            play = self.otherwise  # as it is when the request is let go
        return play(received) if callable(play) else play

    async def _enter(self, received: Received) -> None:
        async with self._change:
            self.requests.append(received)
            received.number = len(self.requests)
            received.on_over = self._leave
            self.running += 1
            self.peak = max(self.peak, self.running)
            self._change.notify_all()

    def _leave(self) -> None:
        self.running -= 1

    def _probe(self, path: str) -> Answer:
        listed = self.phase in ("ready", "listed")
        if path.endswith("/models") and listed:
            data = [{"id": name, "object": "model"} for name in self._models]
            return reply({"object": "list", "data": data})
        if path == "/health" and self.phase == "ready":
            return reply(json.dumps({"status": "ok"}))
        return LOADING if self.phase != "ready" else error(404, "Not Found")
