"""A load, a swap, a stop, with real processes behind a real API."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

from tests.slot.acts.plane import Engine, plane


async def test_a_lease_loads_its_recipe_and_names_where_it_answers(tmp_path: Path) -> None:
    fast = {"variants": {"fast": {"chat_template_kwargs": {"enable_thinking": False}}}}
    async with plane(tmp_path, a=Engine(load_s=0.1, file=fast)) as it:
        lease = await it.lease("a")

        assert lease["recipe"] == "a"
        assert lease["served_name"] == "a-model"
        assert lease["url"] == f"http://127.0.0.1:{it.engine_port}/v1"
        assert lease["port"] == it.engine_port
        assert lease["variants"] == fast["variants"]
        assert [row["who"] for row in it.events("smoke")] == ["a-model"]
        status = await it.status()
        assert (status["phase"], status["leases"]) == ("ready", 1)
        assert status["loads"]["a"]["count"] == 1
        assert (await it.end(lease))["ended"] == "given_back"
        active = json.loads((it.run / "slot/active.json").read_text())
        assert (active["recipe"], active["phase"]) == ("a", "ready")


async def test_a_swap_waits_for_what_runs_and_stops_the_old_before_the_new(tmp_path: Path) -> None:
    async with plane(tmp_path, a=Engine(), b=Engine()) as it:
        first = await it.lease("a")
        waiting = asyncio.create_task(it.lease("b"))
        await it.phase("draining")
        assert [row["who"] for row in it.events("start")] == ["a-model"]

        await it.end(first)
        second = await waiting

        assert second["recipe"] == "b"
        assert [row["who"] for row in it.events("start")] == ["a-model", "b-model"]
        assert len(it.alive()) == 1


async def test_a_drain_that_takes_too_long_ends_the_stream_and_says_so(tmp_path: Path) -> None:
    async with plane(tmp_path, slot={"rules": {"drain_s": 0.2}}, a=Engine(), b=Engine()) as it:
        first = await it.lease("a")

        await it.lease("b")

        ended = await it.end(first)
        assert ended["ended"] == "evicted"
        assert ended["reason"]


async def test_active_is_what_is_loaded_and_loads_nothing(tmp_path: Path) -> None:
    async with plane(tmp_path, a=Engine()) as it:
        empty = await it.ask("active", swap=False, wait_s=0)
        await it.lease("a")
        full = await it.ask("active", swap=False, wait_s=0)

        assert empty.status_code == 503
        assert empty.json()["error"]["code"] == "not_loaded"
        assert empty.json()["active"] is None
        assert int(empty.headers["retry-after"]) >= 1
        assert full.json()["recipe"] == "a"


async def test_a_name_that_is_not_loaded_and_may_not_swap_is_refused(tmp_path: Path) -> None:
    async with plane(tmp_path, a=Engine(), b=Engine()) as it:
        await it.lease("a")

        refused = await it.ask("b", swap=False)

        assert refused.status_code == 503
        assert refused.json()["error"] | {"message": ""} == {
            "message": "",
            "type": "slot_unavailable",
            "code": "not_loaded",
        }
        assert (refused.json()["recipe"], refused.json()["active"]) == ("b", "a")
        assert len(it.events("start")) == 1


async def test_a_model_list_that_answers_early_is_not_ready(tmp_path: Path) -> None:
    """SWP-10."""
    async with plane(tmp_path, a=Engine(health_late_s=0.4)) as it:
        asking = asyncio.create_task(it.lease("a"))
        await it.until(lambda found: "503" in ((found["progress"] or {}).get("seen") or ""))

        assert not it.events("smoke")
        lease = await asking
        assert lease["waited_s"] >= 0.4


async def test_a_client_that_leaves_holds_nothing_and_the_load_serves_others(
    tmp_path: Path,
) -> None:
    """SWP-14."""
    async with plane(tmp_path, a=Engine(load_s=0.4), b=Engine()) as it:
        leaver = asyncio.create_task(it.ask("a"))
        other = asyncio.create_task(it.lease("a"))
        await it.until(lambda found: found["waiting"][:1] and found["waiting"][0]["count"] == 2)
        leaver.cancel()
        await it.until(lambda found: found["waiting"][0]["count"] == 1)

        assert (await other)["recipe"] == "a"
        assert (await it.status())["leases"] == 1


async def test_a_load_that_nobody_waits_for_any_more_gives_way_to_the_next(tmp_path: Path) -> None:
    """SWP-14, first run."""
    async with plane(tmp_path, a=Engine(load_s=0.3), b=Engine()) as it:
        leaver = asyncio.create_task(it.ask("a"))
        await it.phase("starting")
        leaver.cancel()
        await it.until(lambda found: not found["waiting"])

        lease = await it.lease("b")

        assert lease["recipe"] == "b"
        assert len(it.alive()) == 1


async def test_down_empties_the_slot_and_a_request_loads_again(tmp_path: Path) -> None:
    async with plane(tmp_path, a=Engine()) as it:
        await it.end(await it.lease("a"))
        answer = await it.client.post("/api/slot/down")
        stopped = await it.phase("stopped")

        assert answer.status_code == 202
        assert stopped["job"]["state"] == "stopped"
        assert not it.alive()
        assert (await it.lease("a"))["recipe"] == "a"


async def test_renewal_keeps_a_lease_and_without_it_it_ends(tmp_path: Path) -> None:
    async with plane(tmp_path, slot={"rules": {"lease_s": 0.3}}, a=Engine()) as it:
        kept, left = await it.lease("a"), await it.lease("a")
        rows = [{"lease": kept["lease"], "recipe": "a"}, {"lease": "ab12", "recipe": "other"}]
        lost = []
        for _ in range(4):
            answer = await it.client.post("/api/slot/lease/renew", json={"leases": rows})
            lost.append(answer.json()["lost"])
            await asyncio.sleep(0.1)

        assert lost == [["ab12"]] * 4
        assert (await it.end(kept))["ended"] == "given_back"
        assert (await it.end(left))["ended"] == "expired"
