"""What arrived on a connection that was reset before it was read."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Iterator

_READ_BYTES = 256 * 1024


def last_words(transport: asyncio.Transport) -> Iterator[bytes]:
    """What a reset connection's socket still holds.

    An engine that refuses a large body answers, then closes while we write; the failed write
    ends the transport before the answer that has arrived is read. Not possible through TLS.
    """
    plain = transport.get_extra_info("socket")
    if plain is None or transport.get_extra_info("sslcontext") is not None or plain.fileno() < 0:
        return
    with socket.socket(fileno=os.dup(plain.fileno())) as late:
        try:
            while data := late.recv(_READ_BYTES, socket.MSG_DONTWAIT):
                yield data
        except OSError:
            return
