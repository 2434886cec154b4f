"""The pages: an ASGI app in front of an arrival. Small answers to requests without a body."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from functools import partial
from typing import Any

import httptools

from gateway.inlet.arrival import Arrival

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[MutableMapping[str, Any], Receive, Send], Awaitable[None]]
MAX_BODY_BYTES = 64 * 1024  # no page reads one


async def serve_page(app: App, arrival: Arrival) -> None:
    """Answer with what the app says; 500 where it fails before it says anything."""
    try:
        await app(_scope(arrival), _Receive(arrival), _Send(arrival))
    except Exception:  # raised again; whatever a page fails with, its client hears of it
        if not arrival.started:
            said = b"the gateway failed; its log says why\n"
            length = (b"content-length", b"%d" % len(said))
            arrival.start(500, [(b"content-type", b"text/plain; charset=utf-8"), length])
            arrival.write(said, last=True)
        raise


def _scope(arrival: Arrival) -> dict[str, Any]:
    url = httptools.parse_url(arrival.target)
    return {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.0" if arrival.old else "1.1",
        "method": arrival.method.decode("ascii"),
        "scheme": "http",
        "path": arrival.path,
        "raw_path": url.path,
        "query_string": url.query or b"",
        "root_path": "",
        "headers": list(arrival.headers.items()),
        "client": arrival.connection.peer[:2],
        "server": None,
        "state": {},
    }


class _Receive:
    """ASGI's `receive`: the body once, then word that the client has left."""

    def __init__(self, arrival: Arrival) -> None:
        self._arrival, self._told = arrival, False

    async def __call__(self) -> Message:
        if self._told:
            left = asyncio.get_running_loop().create_future()
            self._arrival.on_left = partial(left.set_result, None)  # which is called once
            if not self._arrival.gone:
                await left
            return {"type": "http.disconnect"}
        self._told = True
        body = await self._arrival.body(MAX_BODY_BYTES)
        return {"type": "http.request", "body": body[:MAX_BODY_BYTES], "more_body": False}


class _Send:
    """ASGI's `send`."""

    def __init__(self, arrival: Arrival) -> None:
        self._arrival = arrival

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._arrival.start(message["status"], list(message.get("headers", ())))
            return
        await self._arrival.drain()
        self._arrival.write(message.get("body", b""), last=not message.get("more_body", False))
