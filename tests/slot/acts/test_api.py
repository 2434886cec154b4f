"""The API's answers: what it takes, what it refuses, who may ask, what it hides."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.slot.acts.plane import Engine, plane

WRONG: list[tuple[Any, str]] = [
    ({"recipe": 1}, "`recipe` must be text"),
    ({}, "`recipe` must be text"),
    ({"recipe": "a", "swap": "yes"}, "`swap` must be true or false"),
    ({"recipe": "a", "wait_s": -1}, "`wait_s` must be seconds, 0 or more"),
    ({"recipe": "a", "wait_s": True}, "`wait_s` must be seconds, 0 or more"),
    ({"recipe": "a", "model": "x"}, "`model` is no field here"),
    ([], "the body must be a JSON object"),
]


async def test_a_lease_takes_its_fields_and_nothing_else(tmp_path: Path) -> None:
    async with plane(tmp_path, a=Engine()) as it:
        for body, says in WRONG:
            answer = await it.client.post("/api/slot/lease", json=body)

            assert answer.status_code == 400
            assert says in answer.json()["error"]["message"]
        assert not it.events("start")


async def test_bodies_that_are_no_json_or_too_large_are_refused(tmp_path: Path) -> None:
    async with plane(tmp_path, a=Engine()) as it:
        bad = await it.client.post("/api/slot/lease", content=b"{")
        large = await it.client.post("/api/slot/lease", content=b" " * 300_000)

        assert (bad.status_code, large.status_code) == (400, 400)


async def test_a_name_that_no_recipe_has_is_not_found(tmp_path: Path) -> None:
    async with plane(tmp_path, a=Engine(file={"aliases": ["first"]}), b=Engine()) as it:
        lost = await it.ask("c")
        switched = await it.switch("c")

        assert lost.status_code == 404
        assert lost.json()["error"]["code"] == "unknown_recipe"
        assert lost.json()["error"]["message"] == "there is no recipe 'c'; there is a, b"
        assert switched.status_code == 400
        assert (await it.lease("first"))["recipe"] == "a"


async def test_only_recipes_that_this_machine_enables_are_loaded(tmp_path: Path) -> None:
    async with plane(tmp_path, slot={"enabled": ["a", "gone"]}, a=Engine(), b=Engine()) as it:
        listed = (await it.client.get("/api/slot/recipes")).json()

        assert (await it.ask("b")).status_code == 404
        assert {row["id"]: row["enabled"] for row in listed["recipes"]} == {"a": True, "b": False}
        assert listed["missing"] == ["gone"]


async def test_with_a_key_nobody_gets_in_without_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLOT_KEY", "slot-secret-1")
    async with plane(tmp_path, slot={"key": "os.environ/SLOT_KEY"}, a=Engine()) as it:
        without = await it.client.get("/api/slot/status")
        it.client.headers["authorization"] = "Bearer wrong"
        wrong = await it.client.get("/api/slot/status")
        it.client.headers["authorization"] = "Bearer slot-secret-1"

        assert (without.status_code, wrong.status_code) == (401, 401)
        assert without.json()["error"]["code"] == "invalid_api_key"
        assert (await it.lease("a"))["recipe"] == "a"
        environ = Path(f"/proc/{it.alive()[0]}/environ").read_bytes()
        assert b"slot-secret-1" not in environ


async def test_without_a_key_a_page_of_another_machine_is_refused(tmp_path: Path) -> None:
    evil = "https://evil.example"
    async with plane(tmp_path, a=Engine()) as it:
        for headers in ({"host": "evil.example"}, {"origin": evil}, {"origin": "null"}):
            answer = await it.client.post("/api/slot/down", headers=headers)

            assert answer.status_code == 403
            assert answer.json()["error"]["code"] == "foreign_host"


async def test_looks_start_nothing(tmp_path: Path) -> None:
    """SWP-16."""
    async with plane(tmp_path, a=Engine(), b=Engine()) as it:
        for path in ("status", "status?lite=1", "recipes", "context?recipe=b", "logs"):
            assert (await it.client.get(f"/api/slot/{path}")).status_code == 200
        assert (await it.client.get("/health")).json() == {"status": "ok", "phase": "stopped"}

        assert not it.events("start")


async def test_a_switch_is_refused_while_streams_run_and_taken_when_confirmed(
    tmp_path: Path,
) -> None:
    async with plane(tmp_path, a=Engine(), b=Engine()) as it:
        lease = await it.lease("a")
        busy = await it.switch("b")
        same = await it.switch("a")
        taken = await it.switch("b", confirm=True)
        await it.end(lease)
        found = await it.until(lambda found: found["job"]["state"] == "ready")

        assert busy.status_code == 409
        assert busy.json()["error"]["message"].startswith("1 requests run on a")
        assert (same.status_code, same.json()["job"]["state"]) == (202, "ready")
        assert (taken.status_code, taken.json()["job"]["state"]) == (202, "waiting")
        assert found["recipe"] == "b"


async def test_a_switch_during_a_load_is_refused_until_confirmed(tmp_path: Path) -> None:
    async with plane(tmp_path, a=Engine(load_s=0.4), b=Engine()) as it:
        await it.switch("a")
        busy = await it.switch("b")
        await it.switch("b", confirm=True)
        await it.until(lambda found: found["job"]["state"] == "ready")

        assert busy.json()["error"]["message"].startswith("a is loading")
        assert [row["who"] for row in it.events("smoke")] == ["a-model", "b-model"]


async def test_a_context_of_ones_own_starts_the_recipe_anew_with_it(tmp_path: Path) -> None:
    presets = {"default": 1024, "native": 4096, "presets": {"long": {"ctx": 4096, "kv": "q8_0"}}}
    async with plane(tmp_path, a=Engine(file={"context": presets})) as it:
        wrong = [await it.switch("a", preset="none"), await it.switch("a", ctx=9999)]
        await it.end(await it.lease("a"))
        await it.switch("a", preset="long")
        await it.until(lambda found: len(it.events("smoke")) == 2 and found["phase"] == "ready")
        context = (await it.client.get("/api/slot/context")).json()

        assert [answer.status_code for answer in wrong] == [400, 400]
        assert wrong[0].json()["error"]["code"] == "bad_overrides"
        assert context["overrides"] == {"preset": "long"}
        assert context["presets"]["long"]["ctx"] == 4096
        [pid] = it.alive()
        command = Path(f"/proc/{pid}/cmdline").read_text().split("\0")
        assert command[command.index("-c") + 1] == "4096"


async def test_a_bench_measures_what_is_loaded_and_loads_nothing(tmp_path: Path) -> None:
    async with plane(tmp_path, a=Engine(), b=Engine()) as it:
        empty = await it.client.post("/api/slot/bench")
        await it.end(await it.lease("a"))
        other = await it.client.post("/api/slot/bench", json={"recipe": "b"})
        taken = await it.client.post("/api/slot/bench", json={})
        found = await it.until(lambda found: found["bench"] is not None)

        assert (empty.status_code, other.status_code, taken.status_code) == (409, 409, 202)
        assert (found["bench"]["recipe"], found["bench"]["error"]) == ("a", "")
        assert found["bench"]["tokens"] == 2
        assert found["bench"]["ttft_ms"] > 0
        assert found["leases"] == 0


async def test_recipes_are_read_again_when_a_file_changes(tmp_path: Path) -> None:
    async with plane(tmp_path, a=Engine()) as it:
        it.write("late", Engine())
        listed = (await it.client.get("/api/slot/recipes")).json()
        (tmp_path / "recipes/a.yaml").write_text("id: a\nname: [")
        broken = (await it.client.get("/api/slot/recipes")).json()

        assert [row["id"] for row in listed["recipes"]] == ["a", "late"]
        assert [row["id"] for row in broken["recipes"]] == ["a", "late"]
        assert broken["problems"][0]["file"].endswith("a.yaml")
        assert (await it.lease("a"))["recipe"] == "a"
        it.write("a", Engine())


async def test_a_log_is_followed_without_repeats_and_without_secrets(tmp_path: Path) -> None:
    async with plane(tmp_path, a=Engine(says="api_key=hunter2")) as it:
        await it.lease("a")
        first = (await it.client.get("/api/slot/logs", params={"lines": "5"})).json()
        with (it.run / "logs" / first["file"]).open("a") as log:
            log.write("more\nhalf a li")
        asked = {"file": first["file"], "at": str(first["at"])}
        second = (await it.client.get("/api/slot/logs", params=asked)).json()
        wrong = await it.client.get("/api/slot/logs", params={"lines": "x"})

        assert first["lines"] == ["a-model starts api_key=[hidden]"]
        assert second["lines"] == ["more"]
        assert wrong.status_code == 400


async def test_what_is_loaded_serves_on_though_its_file_is_gone(tmp_path: Path) -> None:
    async with plane(tmp_path, a=Engine()) as it:
        await it.lease("a")
        (tmp_path / "recipes/a.yaml").unlink()

        assert (await it.lease("active"))["served_name"] == "a-model"
        assert (await it.ask("a")).status_code == 404


async def test_who_waits_is_refused_when_the_operator_empties_the_slot(tmp_path: Path) -> None:
    async with plane(tmp_path, a=Engine(load_s=2)) as it:
        asking = asyncio.create_task(it.ask("a"))
        await it.phase("starting")
        await it.client.post("/api/slot/down")

        answer = await asking

        assert answer.status_code == 503
        assert int(answer.headers["retry-after"]) >= 1
