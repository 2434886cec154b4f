"""The relay's HTTP/1.1 client: POST a ready-made request, get the answer as it comes.

It does what a gateway in front of engines needs and nothing else: kept-alive connections, TLS,
backpressure, and a close the moment the caller leaves. No redirects, proxies, cookies or
decompression. Why there is one: design-decisions/009-a-small-http-client-of-our-own.md.
"""

from __future__ import annotations

import asyncio
import ssl
from dataclasses import dataclass
from functools import partial

from gateway.http1.connection import Connection
from gateway.http1.dial import first, reason, resolve
from gateway.http1.errors import ConnectFailed, NoAnswer, StaleConnection
from gateway.http1.host import Host
from gateway.http1.response import Response
from gateway.outbox import Outbox

__all__ = ["Client", "Response", "Target"]


@dataclass(frozen=True, slots=True)
class Target:
    """Where to connect: a name or address (IPv6 without brackets), a port, and whether by TLS."""

    host: str
    port: int
    tls: bool = False

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class Client:
    """Connections to any number of upstreams, each host's apart. One client per event loop.

    `idle_s` must be shorter than the time after which engines close idle connections (uvicorn
    and vLLM: 5 s), so that a request rarely meets one that is closing. Certificates are
    verified against the system's roots unless `ssl` says else.
    """

    def __init__(
        self,
        *,
        connect_timeout_s: float = 10.0,
        idle_s: float = 4.0,
        ssl: ssl.SSLContext | None = None,
        outbox: Outbox | None = None,
    ) -> None:
        self._connect_timeout_s = connect_timeout_s
        self._idle_s = idle_s
        self._ssl = ssl
        self._outbox = outbox or Outbox()
        self._hosts: dict[Target, Host] = {}
        self._connecting: set[asyncio.Task[Connection]] = set()
        self._closed = False
        self._loop: asyncio.AbstractEventLoop | None = None

    @property
    def open_connections(self) -> int:
        """Connections that stand now, idle ones included."""
        return sum(len(host.open) for host in self._hosts.values())

    async def post(
        self, target: Target, head: bytes, body: bytes, answer: Response | None = None
    ) -> Response:
        """Send a request; returns when the answer's head is in, often before its body.

        `head` is the whole request head, from the request line to the blank line. Raises
        ConnectFailed, NoAnswer or BadAnswer. A kept-alive connection that turns out closed
        before any byte of an answer is replaced by a new one, once. Cancelling closes the
        connection. A caller that must be able to stop a pending post from a timer passes its
        own `answer`: `answer.abort(error)` then makes the post raise `error`.
        """
        if self._loop is None:
            self._loop = asyncio.get_running_loop()
        if answer is None:
            answer = Response(self._loop)
        else:
            answer.raise_if_aborted()
        host = self._hosts.get(target)
        if host is None:
            host = self._hosts[target] = Host(str(target), self._idle_s, self._outbox)
        connection = host.take()
        if connection is None:
            connection = await self._connect(target, host, answer)
        connection.send(head, body, answer)
        try:
            await answer.head()
        except StaleConnection as stale:
            connection = await self._reconnect(target, host, answer, stale)
            connection.send(head, body, answer)
            await answer.head()
        return answer

    async def close(self) -> None:
        """Close every connection; pending posts and reads raise Aborted. No post after it."""
        self._closed = True
        for task in tuple(self._connecting):
            task.cancel()
        for host in tuple(self._hosts.values()):  # others may still be met while this waits
            await host.close()

    async def _reconnect(
        self, target: Target, host: Host, answer: Response, stale: StaleConnection
    ) -> Connection:
        try:
            return await self._connect(target, host, answer)
        except ConnectFailed as error:
            # The request was sent once, on the stale connection: not "nothing was sent".
            raise NoAnswer(f"{stale}; then {error}") from error

    async def _connect(self, target: Target, host: Host, answer: Response) -> Connection:
        """A new connection. In a task of its own, so that `answer.abort` can stop it."""
        if self._closed:
            raise ConnectFailed("the client is closed")
        task = asyncio.create_task(self._open(target, host))
        self._connecting.add(task)
        answer.comes_from(_Connecting(task))
        try:
            connection = await task
            answer.raise_if_aborted()  # perhaps in the moment between the task's end and here
        except BaseException:  # cancelled too: the dial must not go on unowned
            _discard(task)
            if not _leaving():
                answer.raise_if_aborted()
                if self._closed:
                    raise ConnectFailed("the client was closed") from None
            raise
        finally:
            self._connecting.discard(task)
        return connection

    async def _open(self, target: Target, host: Host) -> Connection:
        try:
            async with asyncio.timeout(self._connect_timeout_s):
                addresses = await resolve(target.host, target.port)
                attempts = [partial(self._try, address, target, host) for address in addresses]
                return await first(attempts, Connection.abort)
        except TimeoutError as error:
            message = f"no connection to {target} within {self._connect_timeout_s:g} s"
            raise ConnectFailed(message) from error
        except (OSError, UnicodeError) as error:  # UnicodeError: a name DNS cannot hold
            raise ConnectFailed(f"cannot connect to {target}: {reason(error)}") from error

    async def _try(self, address: str, target: Target, host: Host) -> Connection:
        """A connection to one address, after the TLS handshake if there is one."""
        # Not over a socket of our own: uvloop closes a descriptor twice if the peer resets in
        # the moment between opening it and taking the socket over.
        connection = Connection(host)
        try:
            await asyncio.get_running_loop().create_connection(
                lambda: connection,
                address,
                target.port,
                ssl=self._context() if target.tls else None,
                server_hostname=target.host if target.tls else None,
            )
        except BaseException:  # raised again; the books forget the connection
            host.lost(connection)  # uvloop, when cancelled, may drop it without a word
            raise
        return connection

    def _context(self) -> ssl.SSLContext:
        # Made when first needed: loading the system's roots takes some 20 ms.
        if self._ssl is None:
            self._ssl = ssl.create_default_context()
        return self._ssl


def _discard(task: asyncio.Task[Connection]) -> None:
    """Close the connection that a task has made for nobody."""
    if task.done() and not task.cancelled() and task.exception() is None:
        task.result().abort()


def _leaving() -> bool:
    """True if the running task itself was cancelled, and not only what it waited for."""
    current = asyncio.current_task()
    return current is not None and current.cancelling() > 0


class _Connecting:
    """The source of an answer whose connection is still being made."""

    __slots__ = ("_task",)

    def __init__(self, task: asyncio.Task[Connection]) -> None:
        self._task = task

    def abort(self) -> None:
        self._task.cancel()

    def resume(self) -> None:
        """Nothing to resume yet."""
