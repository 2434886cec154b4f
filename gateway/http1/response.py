"""An answer as it comes in: its head, then its body, piece by piece.

The connection puts in what the parser found; the relay takes it out with `read`. There is no
task and no timer between the two, only one future while the reader waits.
"""

from __future__ import annotations

import asyncio
from typing import Protocol

from gateway.http1.errors import Aborted


class Source(Protocol):
    """What is behind an unfinished answer: a connection, or the making of one."""

    def abort(self) -> None:
        """Close it now."""

    def resume(self) -> None:
        """The reader has caught up: read on."""


class Response:
    """One answer. Read it to its end or abort it: until then it holds a connection."""

    __slots__ = (
        "_ended",
        "_error",
        "_loop",
        "_pieces",
        "_source",
        "_waiter",
        "headers",
        "status",
        "unread",
    )

    def __init__(self, loop: asyncio.AbstractEventLoop | None = None) -> None:
        """`loop` is the running one; asking for it costs a system call, so callers keep it."""
        self._loop = loop or asyncio.get_running_loop()
        self.status = 0  # 0 until the head is in
        self.headers: list[tuple[bytes, bytes]] = []  # names in lower case, repeats kept
        self.unread = 0  # bytes of body that wait for the reader
        self._pieces: list[bytes] = []
        self._ended = False
        self._error: BaseException | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._source: Source | None = None

    async def read(self) -> bytes:
        """What has arrived, joined; waits if nothing has. b"" only at the clean end of the body.

        What came before a fault is given first, then the fault is raised: Truncated, BadAnswer,
        or the error given to `abort`. One reader at a time; cancelling it closes the connection.
        """
        while not self._pieces:
            if self._error is not None:
                raise self._error
            if self._ended:
                return b""
            await self._news()
        pieces, self._pieces, self.unread = self._pieces, [], 0
        if self._source is not None:
            self._source.resume()
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def at_end(self) -> bool:
        """True if the clean end of the body is in and all of it was read."""
        return self._ended and self._error is None and not self._pieces

    def abort(self, error: BaseException | None = None) -> None:
        """Close the connection now; a pending or later read (or post) raises `error` or Aborted.

        Bytes not yet read are dropped. Harmless after the end, and when repeated.
        """
        if self._ended and not self._pieces:
            return
        source, self._source = self._source, None
        self._pieces, self.unread = [], 0
        self._error = self._error or error or Aborted("the request was aborted")
        self._ended = True
        self.wake()
        if source is not None:
            source.abort()

    # What follows is for the client and its connections.

    async def head(self) -> None:
        """Wait until status and headers are in; raises what ended the answer before that."""
        while not self.status:
            if self._error is not None:
                raise self._error
            await self._news()

    def raise_if_aborted(self) -> None:
        """Raise the error of an answer that was aborted before it began."""
        if self._error is not None:
            raise self._error

    def comes_from(self, source: Source) -> None:
        """The answer is now expected from `source`; what an earlier one said is forgotten."""
        self._source, self._ended, self._error = source, False, None

    def begin(self, status: int, headers: list[tuple[bytes, bytes]]) -> None:
        """The head is in."""
        self.status, self.headers = status, headers

    def add(self, piece: bytes) -> None:
        """A piece of body is in. The reader is not woken until `wake`: one read, one wake."""
        self._pieces.append(piece)
        self.unread += len(piece)

    def end(self, error: BaseException | None) -> None:
        """Nothing more will come: whole if `error` is None. What ended it first stands."""
        if not self._ended:
            self._source, self._ended, self._error = None, True, error
            self.wake()

    def wake(self) -> None:
        """Let the waiting reader look again."""
        waiter = self._waiter
        if waiter is not None:
            self._waiter = None
            if not waiter.done():
                waiter.set_result(None)

    async def _news(self) -> None:
        self._waiter = self._loop.create_future()
        try:
            await self._waiter
        except asyncio.CancelledError:
            # Whoever asked has left: the engine must see that now, not at the body's end.
            self.abort()
            raise
