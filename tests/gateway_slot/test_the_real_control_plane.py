"""The gateway before the project's own control plane, with real processes as engines."""

from __future__ import annotations

import asyncio
from pathlib import Path

from tests.engine import FakeEngine
from tests.gateway_slot.plane import on_slot
from tests.harness import gateway
from tests.node import Node
from tests.slot.acts.plane import Engine, plane


async def test_requests_for_two_recipes_and_for_what_is_loaded(tmp_path: Path) -> None:
    """SWP-01, SWP-02: five for each at once; few loads, and everybody is answered."""
    nobody = FakeEngine("nobody")
    groups = {
        "a": on_slot(nobody, "a", "a"),
        "b": on_slot(nobody, "b", "b"),
        "active": on_slot(nobody, "active", "active"),
    }
    async with plane(tmp_path, a=Engine(load_s=0.1), b=Engine(load_s=0.1)) as it:
        slots = {"gpu0": {"url": f"http://127.0.0.1:{it.port}"}}
        async with gateway(Node(groups, settings={"slots": slots})) as g:
            empty = await g.client.ask("active")
            first = await g.client.ask("a")
            asked = [g.client.ask(name) for name in ("a", "b") for _ in range(5)]
            answers = await asyncio.gather(*asked)
            last = await g.client.ask("active")
            records = await g.records(13)
            async with asyncio.timeout(5):
                while (await it.status())["leases"]:
                    await asyncio.sleep(0.01)

        starts = [row["who"] for row in it.events("start")]

    assert empty.error is not None
    assert (empty.status, empty.error["code"]) == (503, "slot_not_loaded")
    assert first.headers["x-slot-served-model"] == "a-model"
    assert {answer.status for answer in (*answers, last)} == {200}
    assert [answer.headers["x-slot-active-profile"] for answer in answers] == ["a"] * 5 + ["b"] * 5
    assert starts[:2] == ["a-model", "b-model"]
    assert len(starts) <= 3
    assert {r["recipe"] for r in records} == {None, "a", "b"}
