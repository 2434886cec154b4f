"""A scripted control plane on a real socket, with engines as its recipes.

    a, b = FakeEngine("a"), FakeEngine("b")
    async with Plane({"a": a, "b": b}, loaded="a") as plane, gateway(node(plane, ...)) as g:

A lease for a recipe that is not loaded waits until the test says `await plane.load("b")`.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Mapping
from typing import Any, Self

from tests import markers
from tests.engine import FakeEngine
from tests.engine_answers import Answer, reply
from tests.engine_wire import Connection, Received
from tests.node import ENVIRON, Member, Node, member
from tests.served import free_port

SLOT_KEY = markers.key("slot")
ENVIRON["KEY_SLOT"] = SLOT_KEY
VARIANTS = {
    "think": {"chat_template_kwargs": {"enable_thinking": True}},
    "fast": {"chat_template_kwargs": {"enable_thinking": False}, "top_k": 20},
}


class Plane:
    """One slot's control plane. `refusal` answers every request for a lease, where it is set."""

    def __init__(self, recipes: Mapping[str, FakeEngine], *, loaded: str | None = None) -> None:
        self.recipes, self.loaded = dict(recipes), loaded
        self.port = free_port()
        self.asked: list[Received] = []  # for leases
        self.given_back: list[str] = []
        self.renewed: list[list[str]] = []
        self.held: set[str] = set()
        self.others: list[str] = []  # any other path
        self.ended: dict[str, str] = {}  # lease -> how it ended, if not by being given back
        self.lost: set[str] = set()
        self.taking = asyncio.Event()  # until it is set, leases that come back get no answer
        self.taking.set()
        self.refusal: Answer | None = None
        self._ids = (f"{n:032x}" for n in itertools.count(1))
        self._change = asyncio.Condition()
        self._connections: list[Connection] = []
        self._server: asyncio.Server | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def start(self) -> None:
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(self._connected, "127.0.0.1", self.port)

    async def stop(self) -> None:
        """Go away, and break every call that waits."""
        if self._server is not None:
            self._server.close()
        for connection in self._connections:
            connection.transport.abort()

    async def load(self, recipe: str | None) -> None:
        """A swap is over."""
        async with self._change:
            self.loaded = recipe
            self._change.notify_all()

    async def asks(self, count: int) -> Received:
        """Wait until so many requests for a lease have come; the last of them."""
        async with asyncio.timeout(5), self._change:
            await self._change.wait_for(lambda: len(self.asked) >= count)
        return self.asked[count - 1]

    async def renewals(self, count: int) -> None:
        """Wait until leases were renewed so often."""
        async with asyncio.timeout(5), self._change:
            await self._change.wait_for(lambda: len(self.renewed) >= count)

    async def idle(self) -> None:
        """Wait until every lease is given back."""
        async with asyncio.timeout(5), self._change:
            await self._change.wait_for(lambda: not self.held)

    def _connected(self) -> Connection:
        connection = Connection(len(self._connections), self._serve, idle_s=None, hang=False)
        self._connections.append(connection)
        return connection

    async def _serve(self, received: Received) -> Answer:
        assert received.header("authorization") == f"Bearer {SLOT_KEY}"
        method, path = received.method, received.path
        if (method, path) == ("POST", "/api/slot/lease"):
            return await self._lease(received)
        if (method, path) == ("POST", "/api/slot/lease/renew"):
            return await self._renew(received)
        if method == "DELETE" and path.startswith("/api/slot/lease/"):
            return await self._give_back(path.rpartition("/")[2])
        self.others.append(path)
        return refused(404, "not_found")

    async def _lease(self, received: Received) -> Answer:
        ask = received.json
        assert set(ask) == {"recipe", "swap", "wait_s", "holder"}
        async with self._change:
            self.asked.append(received)
            self._change.notify_all()
            if self.refusal is not None:
                return self.refusal
            name = ask["recipe"]
            if name not in (*self.recipes, "active"):
                return refused(404, "unknown_recipe")
            there = self.loaded is not None and name in (self.loaded, "active")
            if not there and (name == "active" or not ask["swap"]):
                return refused(503, "not_loaded", 30)
            try:
                async with asyncio.timeout(ask["wait_s"] or None):
                    while name not in (self.loaded, "active"):
                        if not ask["wait_s"]:
                            return refused(503, "swapping", 7)
                        await self._change.wait()
            except TimeoutError:
                return refused(503, "waited", 9)
            return reply(self._granted())

    def _granted(self) -> dict[str, Any]:
        assert self.loaded is not None
        engine, lease = self.recipes[self.loaded], next(self._ids)
        self.held.add(lease)
        return {
            "lease": lease,
            "recipe": self.loaded,
            "served_name": f"{self.loaded}-served",
            "url": engine.url,
            "port": engine.port,
            "waited_s": 0.0,
            "variants": VARIANTS,
        }

    async def _renew(self, received: Received) -> Answer:
        rows = received.json["leases"]
        async with self._change:
            self.renewed.append([row["lease"] for row in rows])
            self._change.notify_all()
        assert all(row["recipe"] in self.recipes for row in rows)
        return reply({"lost": [row["lease"] for row in rows if row["lease"] in self.lost]})

    async def _give_back(self, lease: str) -> Answer:
        async with self._change:
            self.given_back.append(lease)
            self.held.discard(lease)
            self._change.notify_all()
        await self.taking.wait()
        return reply({"ended": self.ended.get(lease, "given_back"), "reason": ""})


def refused(status: int, code: str, retry_after: int | None = None) -> Answer:
    """No lease; the message holds what a client must not see."""
    body = {
        "error": {"message": f"{code}: see /var/log/slot.log", "type": "slot_unavailable"}
        | {"code": code},
        "retry_after_s": retry_after,
    }
    headers = [] if retry_after is None else [("retry-after", str(retry_after))]
    return reply(body, status, headers)


def on_slot(engine: FakeEngine, recipe: str, id: str | None = None, **more: Any) -> Member:  # noqa: A002
    """A deployment on slot gpu0; `more` goes into model_info, caps into litellm_params."""
    caps = {name: more.pop(name) for name in ("rpm", "max_parallel_requests") if name in more}
    params = {name: more.pop(name) for name in ("timeout", "extra_body") if name in more}
    info = {"id": id or engine.name, "slot": "gpu0", "recipe": recipe, **more}
    return member(engine, info, api_base=None, **caps, **params)


def node(
    plane: Plane,
    groups: Mapping[str, Any],
    *,
    slot: Mapping[str, Any] | None = None,
    settings: Mapping[str, Any] | None = None,
    **more: Any,
) -> Node:
    """A file whose slot gpu0 is run by the plane."""
    slots = {"gpu0": {"url": plane.url, "key": "os.environ/KEY_SLOT", **(slot or {})}}
    return Node(groups, settings={"slots": slots, **(settings or {})}, **more)
