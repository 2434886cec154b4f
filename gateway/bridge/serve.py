"""The bridge's process at work: it takes calls on its socket and answers each on its connection.

A connection that the gateway closes is a call given up: what serves it is cancelled, and with it
the provider's connection closes at once.
"""

from __future__ import annotations

import asyncio
import contextlib

import msgspec

from gateway.bridge import failures
from gateway.bridge.answers import Answers, Stream, Whole
from gateway.bridge.call import Call, Head, decode_call, encode, frame, read_frame
from gateway.dialects import error_event

_JSON = ("content-type", "application/json")
_EVENTS = ("content-type", "text/event-stream; charset=utf-8")
_END = frame(b"")


class Desk:
    """Serves connections. One for the process."""

    def __init__(self, answers: Answers) -> None:
        self._answers = answers

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection: one call."""
        try:
            call = decode_call(await read_frame(reader))
        except (asyncio.IncompleteReadError, msgspec.DecodeError):
            writer.close()
            return
        serving = asyncio.create_task(self._serve(call, writer))
        left = asyncio.create_task(reader.read(1))
        await asyncio.wait((serving, left), return_when=asyncio.FIRST_COMPLETED)
        for task in (serving, left):
            task.cancel()
        await asyncio.gather(serving, left, return_exceptions=True)
        writer.close()

    async def _serve(self, call: Call, writer: asyncio.StreamWriter) -> None:
        try:
            answer = await self._answers(call)
        except Exception as error:  # noqa: BLE001 -- whatever a provider's code raises is an answer
            head, body = failures.told(error)
            await _send(writer, head, body)
            return
        if isinstance(answer, Whole):
            await _send(writer, Head(headers=[_JSON]), answer.body)
            return
        await self._stream(call, answer, writer)

    async def _stream(self, call: Call, answer: Stream, writer: asyncio.StreamWriter) -> None:
        writer.write(frame(encode(Head(headers=[_EVENTS]))))
        try:
            async for piece in answer.pieces:
                writer.write(frame(piece))
                await writer.drain()
            writer.write(_END)
        except Exception as error:  # noqa: BLE001 -- as above
            if failures.outcome_of(error):
                return  # no end: the gateway sees that it broke
            writer.write(frame(error_event(call.dialect, failures.in_stream(error))) + _END)
        finally:
            with contextlib.suppress(Exception):
                await answer.close()
        await writer.drain()


async def _send(writer: asyncio.StreamWriter, head: Head, body: bytes) -> None:
    writer.write(frame(encode(head)) + (frame(body) if body else b"") + _END)
    await writer.drain()
