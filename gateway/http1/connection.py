"""One connection to an upstream: a request goes out, and the parser's findings become an answer.

On the hot path, between relay/attempt.py, which calls `Client.post`, and the socket. Each read
from the socket is parsed at once and wakes the reader at most once.
"""

from __future__ import annotations

import asyncio
from typing import cast

import httptools

from gateway.http1.errors import (
    Aborted,
    BadAnswer,
    ClientError,
    NoAnswer,
    StaleConnection,
    Truncated,
)
from gateway.http1.host import Host
from gateway.http1.last_words import last_words
from gateway.http1.response import Response

MAX_HEAD_BYTES = 64 * 1024  # of an answer, interim answers included
MAX_UNREAD_BYTES = 256 * 1024  # above it reading from the socket pauses
ONE_WRITE_BYTES = 64 * 1024  # up to here copying the body is cheaper than a second write
STEP_BYTES = 256 * 1024  # what a large body is written in


class Connection(asyncio.Protocol):
    """A connection that carries one request at a time.

    Life: made -> send -> (parked -> send)* -> lost. What the parser finds comes through the
    `on_...` methods, which httptools calls by these names.
    """

    __slots__ = (
        "_answer", "_body", "_complete", "_head_bytes", "_headed", "_headers", "_host", "_out",
        "_parser", "_paused", "_received", "_reusable", "_reused", "_transport", "_unsent",
        "_whole", "_write_paused", "idle_since", "on_body",
    )  # fmt: skip

    def __init__(self, host: Host) -> None:
        self._host = host
        self._transport: asyncio.Transport
        self._body: list[bytes] = []  # of the read that is being parsed
        # Some engines send each token in a chunk of its own: each costs a call into C and no more.
        self.on_body = self._body.append
        self._parser = httptools.HttpResponseParser(self)
        # Where the meaning is plain the parser may be lenient, as other clients are: lines that
        # end in a bare LF, spaces after a chunk's size. Never for what a header may hold.
        self._parser.set_dangerous_leniencies(
            lenient_optional_cr_before_lf=True, lenient_spaces_after_chunk_size=True
        )
        self.idle_since = 0.0  # loop time
        self._answer: Response | None = None
        self._headers: list[tuple[bytes, bytes]] = []
        self._out = b""  # a small request that waits for its turn; see outbox.py
        self._unsent = memoryview(b"")  # of the request's body
        self._write_paused = False
        self._paused = False
        self._reused = False
        self._start_over()

    def _start_over(self) -> None:
        self._received = False  # any byte of this answer
        self._headed = False
        self._complete = False
        self._whole = 0  # pieces in `_body` that are the answer's, once it is complete
        self._reusable = False
        self._head_bytes = 0
        self._headers = []

    # What the client asks.

    def usable(self) -> bool:
        """False once the transport is closing."""
        return not self._transport.is_closing()

    def send(self, head: bytes, body: bytes, answer: Response) -> None:
        """Write a request; its answer is put into `answer` as it comes."""
        self._answer = answer
        answer.comes_from(self)
        if len(body) <= ONE_WRITE_BYTES:
            self._out = head + body
            self._host.outbox.add(self, len(self._out))
            return
        self._transport.write(head)
        self._unsent = memoryview(body)
        self._write_on()

    def flush(self) -> None:
        """Write what waits."""
        out, self._out = self._out, b""
        if out and not self._transport.is_closing():
            self._transport.write(out)

    def abort(self) -> None:
        """Close now, without sending what is buffered."""
        answer, self._answer = self._answer, None
        self._unsent = memoryview(b"")
        if answer is not None:
            answer.end(Aborted("the client was closed"))
        self._transport.abort()

    def resume(self) -> None:
        """The reader has caught up."""
        if self._paused:
            self._paused = False
            self._transport.resume_reading()

    # What the transport says.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The connection stands (after the TLS handshake, if there is one)."""
        self._transport = cast(asyncio.Transport, transport)
        self._host.made(self)

    def data_received(self, data: bytes) -> None:
        """Parse what came, then wake the reader once."""
        answer = self._answer
        if answer is None:
            # Bytes that nobody asked for: whatever they mean, the next answer cannot be trusted.
            self._transport.abort()
            return
        self._received = True
        if not self._headed:
            self._head_bytes += len(data)
        wrong: httptools.HttpParserError | None = None
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            wrong = error
            # 1. Rubbish after a whole answer: the answer stands, the connection does not.
            self._reusable = False
        if self._body:
            self._hand_over(answer)
        if wrong is not None and not self._complete:
            self._fail(_as_bad_answer(wrong))
        elif self._complete:
            self._finish()
        elif not self._headed:
            if self._head_bytes > MAX_HEAD_BYTES:
                self._fail(BadAnswer(f"the answer's head is over {MAX_HEAD_BYTES} bytes"))
        else:
            answer.wake()
            if answer.unread > MAX_UNREAD_BYTES and not self._paused:
                self._paused = True
                self._transport.pause_reading()

    def eof_received(self) -> None:
        """The peer sends no more. Decided here, as the loss may wait for our own writes."""
        self._end_of_input(None)

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection is gone; an answer that is not complete ends here."""
        if exc is not None and self._answer is not None:
            for data in last_words(self._transport):
                self.data_received(data)
        self._end_of_input(exc)
        self._host.lost(self)
        del self._parser  # it holds our methods: a cycle that would wait for the collector

    def pause_writing(self) -> None:
        """The transport's buffer is full."""
        self._write_paused = True

    def resume_writing(self) -> None:
        """The transport's buffer has room."""
        self._write_paused = False
        self._write_on()

    # What the parser finds.

    def on_message_begin(self) -> None:
        """Bytes of an answer; a second one that nobody asked for spoils the connection."""
        if self._complete:
            self._reusable = False

    def on_header(self, name: bytes, value: bytes) -> None:
        """A header, or a trailer, which is dropped."""
        if self._headed:
            self._reusable = False  # httptools might show a trailer as the next answer's header
            return
        name, value = name.lower(), value.rstrip(b" \t")
        if name == b"transfer-encoding" and value.lower() != b"chunked":
            raise BadAnswer(f"transfer coding {value[:40]!r} is not understood")
        self._headers.append((name, value))

    def on_headers_complete(self) -> None:
        """A head is whole: an interim answer's, which is skipped, or the answer's own."""
        if self._headed:
            return
        status = self._parser.get_status_code()
        if status < 200:
            if status == 101 or status < 100:
                raise BadAnswer(f"status {status} was not asked for")
            self._headers = []
            return
        if self._head_bytes > MAX_HEAD_BYTES and _size(self._headers) > MAX_HEAD_BYTES:
            raise BadAnswer(f"the answer's head is over {MAX_HEAD_BYTES} bytes")
        self._headed = True
        self._reusable = self._parser.should_keep_alive()
        if self._answer is not None:
            self._answer.begin(status, self._headers)

    def on_message_complete(self) -> None:
        """The end of an answer, or of an interim one."""
        if self._headed and not self._complete:
            self._complete, self._whole = True, len(self._body)

    def _hand_over(self, answer: Response) -> None:
        """Give the reader the body's pieces of this read, less what is no part of the answer."""
        body = self._body
        if self._complete:
            del body[self._whole :]
        if body:
            answer.add(body[0] if len(body) == 1 else b"".join(body))
            body.clear()

    # How an answer ends.

    def _finish(self) -> None:
        """The answer is whole: keep the connection if it is clean in both directions."""
        answer, self._answer = self._answer, None
        transport = self._transport
        sent = not self._out and not self._unsent and not transport.get_write_buffer_size()
        if self._reusable and sent and not transport.is_closing():
            self.resume()
            self._start_over()
            self._reused = True
            self._host.park(self)
        else:
            self._unsent = memoryview(b"")
            transport.abort()
        if answer is not None:
            answer.end(None)

    def _fail(self, error: ClientError) -> None:
        answer, self._answer = self._answer, None
        self._unsent = memoryview(b"")
        self._transport.abort()
        if answer is not None:
            answer.end(error)

    def _end_of_input(self, exc: Exception | None) -> None:
        """What the end of input means, by what has arrived.

        1. nothing: no answer, or a stale connection, which allows one more try
        2. a part of the head: not an answer
        3. a body that ends with the connection, closed cleanly: whole
        4. any other body: cut
        """
        if self._answer is None:
            return
        how = f"{self._host.name} {'closed' if exc is None else f'lost ({exc})'}"
        if not self._received:  # 1
            kind = StaleConnection if self._reused else NoAnswer
            self._fail(kind(f"connection to {how} before any answer"))
        elif not self._headed:  # 2
            self._fail(BadAnswer(f"connection to {how} within the answer's head"))
        elif exc is None and not _framed(self._headers):  # 3
            self._reusable = False
            self._finish()
        else:  # 4
            self._fail(Truncated(f"connection to {how} before the answer's end"))

    def _write_on(self) -> None:
        """Write as much of a large body as the transport takes, without copying the rest."""
        while self._unsent and not self._write_paused and not self._transport.is_closing():
            step, self._unsent = self._unsent[:STEP_BYTES], self._unsent[STEP_BYTES:]
            self._transport.write(step)


def _as_bad_answer(error: httptools.HttpParserError) -> BadAnswer:
    """Our own refusal, if a callback raised one; else the parser's words."""
    if isinstance(error.__context__, BadAnswer):
        return error.__context__
    return BadAnswer(f"the answer is not HTTP/1.1: {error}")


def _size(headers: list[tuple[bytes, bytes]]) -> int:
    return sum(len(name) + len(value) + 4 for name, value in headers)


def _framed(headers: list[tuple[bytes, bytes]]) -> bool:
    """True if the head says where the body ends; else it ends with the connection."""
    return any(name in (b"content-length", b"transfer-encoding") for name, _ in headers)
