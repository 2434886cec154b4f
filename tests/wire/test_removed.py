"""A deployment that a reload took out of the file is shown until its last request is out."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from tests.engine import FakeEngine
from tests.harness import gateway
from tests.node import Node


async def test_a_removed_deployment_is_counted_until_it_drains() -> None:
    gone, stays = FakeEngine("gone", held=True), FakeEngine("stays")

    async with gateway(Node({"chat": gone, "other": stays})) as g:
        asked = asyncio.create_task(g.client.ask("chat"))
        await gone.arrived(1)
        kept = tuple(d for d in g.config.deployments if d.group == "other")
        tiers = {k: v for k, v in g.config.tiers.items() if k == "other"}
        g.server.swap(replace(g.config, deployments=kept, tiers=tiers))
        during = {d["id"]: d for d in (await g.routes())["deployments"]}
        await gone.release()
        reply = await asked
        after = {d["id"] for d in (await g.routes())["deployments"]}

    assert (during["gone"]["removed"], during["gone"]["in_flight"]) == (True, 1)
    assert reply.status == 200
    assert after == {"stays"}
