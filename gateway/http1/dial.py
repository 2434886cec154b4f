"""Making a TCP connection: resolve a name, then try its addresses a little apart.

asyncio's loop can do this itself, uvloop's cannot: there one dead address of a name would use
up the whole time for connecting. So it is done here, for both (RFC 8305, "happy eyeballs").
"""

from __future__ import annotations

import asyncio
import itertools
import os
import socket
from collections.abc import Iterable
from typing import Any

NEXT_ADDRESS_S = 0.25  # RFC 8305, section 8: the recommended delay between two attempts

Address = tuple[socket.AddressFamily, Any]  # the second as the socket module wants it


async def dial(host: str, port: int) -> socket.socket:
    """A connected, non-blocking socket that sends small writes at once. Raises OSError."""
    addresses = _interleaved(await _resolve(host, port))
    if len(addresses) == 1:
        return await _connect(addresses[0])
    return await _first(addresses)


def reason(error: BaseException | None) -> str:
    """An error in the system's words, such as "Connection refused", not the loop's."""
    if type(error) in (OSError, ConnectionRefusedError) and isinstance(error, OSError):
        return os.strerror(error.errno) if error.errno else str(error)
    return str(error) or type(error).__name__


async def _resolve(host: str, port: int) -> list[Address]:
    try:
        # An address needs no resolver, and no thread to wait for one.
        numeric = socket.AI_NUMERICHOST | socket.AI_NUMERICSERV
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=numeric)
    except socket.gaierror:
        loop = asyncio.get_running_loop()
        found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys((family, address) for family, _, _, _, address in found))


def _interleaved(addresses: Iterable[Address]) -> list[Address]:
    """Families in turn, the resolver's favourite first, so that a dead family costs one delay."""
    families: dict[socket.AddressFamily, list[Address]] = {}
    for address in addresses:
        families.setdefault(address[0], []).append(address)
    turns = itertools.zip_longest(*families.values())
    return [address for turn in turns for address in turn if address is not None]


async def _connect(address: Address) -> socket.socket:
    family, where = address
    made = socket.socket(family, socket.SOCK_STREAM)
    try:
        made.setblocking(False)
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        await asyncio.get_running_loop().sock_connect(made, where)
    except BaseException:
        made.close()  # also when cancelled: no half-open connection stays behind
        raise
    return made


async def _first(addresses: list[Address]) -> socket.socket:
    """The first connection that stands; the other attempts are given up and closed."""
    waiting = list(addresses)
    attempts: list[asyncio.Task[socket.socket]] = []
    winner: asyncio.Task[socket.socket] | None = None
    try:
        while winner is None:
            pending = [a for a in attempts if not a.done()]
            if not waiting and not pending:
                raise _why(attempts)
            if waiting:
                attempts.append(asyncio.create_task(_connect(waiting.pop(0))))
                pending.append(attempts[-1])
            await asyncio.wait(
                pending,
                timeout=NEXT_ADDRESS_S if waiting else None,
                return_when=asyncio.FIRST_COMPLETED,
            )
            winner = next((a for a in attempts if a.done() and a.exception() is None), None)
        return winner.result()
    finally:
        for attempt in attempts:
            if attempt is not winner:
                _give_up(attempt)


def _give_up(attempt: asyncio.Task[socket.socket]) -> None:
    """Stop an attempt; if it has just connected, close what it made."""
    if attempt.done():
        if not attempt.cancelled() and attempt.exception() is None:
            attempt.result().close()
        return
    attempt.add_done_callback(_give_up)
    attempt.cancel()


def _why(attempts: list[asyncio.Task[socket.socket]]) -> OSError:
    """One error for all: each address's own words."""
    reasons = dict.fromkeys(reason(attempt.exception()) for attempt in attempts)
    return OSError("; ".join(reasons) or "the name has no address")
