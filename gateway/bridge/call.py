"""What the gateway and the bridge's process say to each other over a Unix socket.

One connection is one call. Each message is a frame: four bytes of length, then that many bytes.

    gateway    Call, then nothing; closing the connection gives the call up
    bridge     Head, then the body's pieces, then an empty frame

A connection that ends without the empty frame broke: the answer is not whole.
"""

from __future__ import annotations

import asyncio
from typing import Any, Literal

import msgspec

from gateway.config.config import Dialect

# How a call failed before it had a status; "" where it has one. The words are AttemptFailed's.
Outcome = Literal["", "connect-error", "broken", "timeout"]
_LENGTH_BYTES = 4


class Call(msgspec.Struct, kw_only=True, frozen=True):
    """One request, fitted to one deployment: the file's word, with a client's `body`.

    `headers` are those of the client's that may go up.
    """

    id: str
    dialect: Dialect
    stream: bool
    provider: str
    model: str
    body: bytes  # a JSON object in the client's dialect
    api_base: str | None = None
    api_key: str | None = None
    speaks_chat: bool = False  # the engine itself takes OpenAI's chat at `api_base`
    params: dict[str, Any] = {}  # what else litellm_params say, such as a region
    fixed: list[str] = []  # names that extra_body sets: they pass whatever they are
    drop_params: bool = False
    headers: dict[str, str] = {}


class Head(msgspec.Struct, kw_only=True, frozen=True):
    """How an answer begins, or why there is none."""

    status: int = 200
    headers: list[tuple[str, str]] = []
    outcome: Outcome = ""
    detail: str = ""  # with an outcome: what happened, for the log


encode = msgspec.msgpack.Encoder().encode
decode_call = msgspec.msgpack.Decoder(Call).decode
decode_head = msgspec.msgpack.Decoder(Head).decode


def frame(data: bytes) -> bytes:
    """A message with its length."""
    return len(data).to_bytes(_LENGTH_BYTES, "big") + data


async def read_frame(reader: asyncio.StreamReader) -> bytes:
    """The next message. Raises asyncio.IncompleteReadError where the connection ends first."""
    length = int.from_bytes(await reader.readexactly(_LENGTH_BYTES), "big")
    return await reader.readexactly(length) if length else b""
