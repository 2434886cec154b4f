"""Which address of a name to use: each is tried a little after the one before.

asyncio's loop can do this itself, uvloop's cannot: there one dead address of a name would use
up the whole time for connecting. So it is done here, for both (RFC 8305, "happy eyeballs").
"""

from __future__ import annotations

import asyncio
import itertools
import os
import socket
from collections.abc import Callable, Coroutine, Iterable, Sequence
from typing import Any, TypeVar

NEXT_ADDRESS_S = 0.25  # RFC 8305, section 8: the recommended delay between two attempts

T = TypeVar("T")
Attempt = Callable[[], Coroutine[Any, Any, T]]


def reason(error: BaseException | None) -> str:
    """An error in the system's words, such as "Connection refused", not the loop's."""
    if type(error) in (OSError, ConnectionRefusedError) and isinstance(error, OSError):
        return os.strerror(error.errno) if error.errno else str(error)
    return str(error) or type(error).__name__


async def resolve(host: str, port: int) -> list[str]:
    """The addresses of a name, in the order to try them. Raises OSError if it has none."""
    try:
        # An address needs no resolver, and no thread to wait for one.
        numeric = socket.AI_NUMERICHOST | socket.AI_NUMERICSERV
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=numeric)
    except socket.gaierror:
        loop = asyncio.get_running_loop()
        found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return interleaved((family, str(address[0])) for family, _, _, _, address in found)


def interleaved(addresses: Iterable[tuple[socket.AddressFamily, str]]) -> list[str]:
    """Families in turn, the resolver's favourite first, so that a dead family costs one delay."""
    families: dict[socket.AddressFamily, list[str]] = {}
    for family, address in dict.fromkeys(addresses):
        families.setdefault(family, []).append(address)
    turns = itertools.zip_longest(*families.values())
    return [address for turn in turns for address in turn if address is not None]


async def first(attempts: Sequence[Attempt[T]], close: Callable[[T], None]) -> T:
    """What the first successful attempt gives; the others are stopped, and closed if too late."""
    if len(attempts) == 1:
        return await attempts[0]()
    waiting = list(attempts)
    tasks: list[asyncio.Task[T]] = []
    winner: asyncio.Task[T] | None = None
    try:
        while winner is None:
            pending = [task for task in tasks if not task.done()]
            if not waiting and not pending:
                raise _why(tasks)
            if waiting:
                tasks.append(asyncio.create_task(waiting.pop(0)()))
                pending.append(tasks[-1])
            await asyncio.wait(
                pending,
                timeout=NEXT_ADDRESS_S if waiting else None,
                return_when=asyncio.FIRST_COMPLETED,
            )
            winner = next((t for t in tasks if t.done() and t.exception() is None), None)
        return winner.result()
    finally:
        for task in tasks:
            if task is not winner:
                _give_up(task, close)


def _give_up(task: asyncio.Task[T], close: Callable[[T], None]) -> None:
    """Stop an attempt; if it has just succeeded, close what it made."""
    if not task.done():
        task.add_done_callback(lambda done: _give_up(done, close))
        task.cancel()
    elif not task.cancelled() and task.exception() is None:
        close(task.result())


def _why(tasks: Sequence[asyncio.Task[Any]]) -> OSError:
    """One error for all: each address's own words."""
    reasons = dict.fromkeys(reason(task.exception()) for task in tasks)
    return OSError("; ".join(reasons) or "the name has no address")
