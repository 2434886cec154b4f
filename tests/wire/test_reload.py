"""Reload and stop, on a process of its own, by its signals."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from tests.client import PATHS, Reply, question
from tests.engine import FakeEngine
from tests.engine_answers import Answer, Hold, Part, stream
from tests.engine_says import DONE, Say, delta
from tests.node import Node, member
from tests.served import Served, served


def gated(gate: asyncio.Event) -> Answer:
    """A stream that goes on when the gate is set."""
    parts: list[Part] = [delta("", role="assistant"), delta("one "), Hold(gate), delta("two")]
    return stream([*parts, delta(finish="stop"), DONE])


async def config_state(it: Served) -> str:
    return str((await it.ready()).get("config"))


async def test_hup_with_and_without_a_change_never_ends_the_process(tmp_path: Path) -> None:
    """REL-05: a changed file takes effect, an unchanged one is no-op; streams keep going."""
    gate = asyncio.Event()
    a, b = FakeEngine("a", script=[gated(gate)]), FakeEngine("b")
    old, new = Node({"chat": a, "other": b}), Node({"chat": b, "added": a})

    async with served(old, tmp_path) as it:
        before = await it.revision()
        await it.hang_up()
        async with it.client.open(PATHS["chat"], question("chat", stream=True)) as opened:
            await opened.text(1)
            it.write(new)
            await it.hang_up()

            async def swapped() -> bool:
                return await it.revision() != before

            await it.until(swapped, "the new file is not in force")
            added = await it.client.ask("added")
            chat = await it.client.ask("chat")
            other = await it.client.ask("other")
            gate.set()
            got = await opened.rest()

        assert it.process.returncode is None

    assert got.done
    assert got.text == "one two"
    assert got.headers["x-gateway-config"] == before
    assert (added.status, chat.deployment, other.status) == (200, "b", 404)


BROKEN: dict[str, Callable[[bytes], bytes]] = {
    "a syntax error": lambda text: text + b"\n  - [oops",
    "an invalid tier": lambda text: text.replace(b"interactive:", b"interactiv:"),
    "empty": lambda text: b"",
    "half written": lambda text: text[: text.index(b"general_settings") + 7],
    "an unknown key": lambda text: text.replace(b"router_settings", b"routre_settings"),
}


async def test_a_bad_file_changes_nothing_and_says_so(tmp_path: Path) -> None:
    """REL-03: ten streams run on; the old file stays in force, visibly; then the right one."""
    gate = asyncio.Event()
    engine = FakeEngine("a", otherwise=lambda r: gated(gate) if r.streams else Say()(r))
    node = Node({"chat": engine})

    async with served(node, tmp_path) as it:
        before = await it.revision()
        text = it.file.read_bytes()
        async with asyncio.TaskGroup() as group:
            streams = [group.create_task(it.client.ask("chat", stream=True)) for _ in range(10)]
            await engine.arrived(10)
            for name, broken in BROKEN.items():
                it.file.write_bytes(broken(text))
                await it.hang_up()

                async def rejected() -> bool:
                    return await config_state(it) == "rejected"

                await it.until(rejected, f"{name}: not rejected")
                assert await it.revision() == before
                assert (await it.client.get("/health/ready")).status == 200
                assert (await it.client.ask("chat")).status == 200
                it.file.write_bytes(text)
                await it.hang_up()

                async def accepted() -> bool:
                    return await config_state(it) != "rejected"

                await it.until(accepted, f"after {name}: the right file is not accepted")
            gate.set()

    assert all(task.result().done for task in streams)
    assert "error[" in it.output()


async def test_watch_reloads_without_a_signal(tmp_path: Path) -> None:
    a, b = FakeEngine("a"), FakeEngine("b")

    async with served(Node({"chat": a, "x": b}), tmp_path, "--watch") as it:
        it.write(Node({"chat": b, "x": a}))

        async def moved() -> bool:
            return (await it.client.ask("chat")).deployment == "b"

        await it.until(moved, "the change was not seen")


async def test_permits_and_rests_carry_over_a_reload(tmp_path: Path) -> None:
    """Section 5, Health: state lives by the deployment's id."""
    full, bad, spare = FakeEngine("full", held=True), FakeEngine("bad", status=500), FakeEngine("s")
    hasty = {"interactive": {"queue": {"max_wait_s": 0.05, "max_waiting": 5}}}

    def node(comment: int) -> Node:
        return Node(
            {"chat": member(full, max_parallel_requests=1), "bad": bad, "s": spare},
            router={
                "fallbacks": [{"bad": ["s"]}],
                "allowed_fails": 0,
                "cooldown_time": 600,
                "num_retries": 0,
                "timeout": 100 + comment,
            },
            rules=hasty,
        )

    async with served(node(0), tmp_path) as it:
        before = await it.revision()
        held = asyncio.create_task(it.client.ask("chat"))
        await full.arrived(1)
        assert (await it.client.ask("bad")).deployment == "s"
        it.write(node(1))
        await it.hang_up()

        async def swapped() -> bool:
            return await it.revision() != before

        await it.until(swapped, "the new file is not in force")
        second = await it.client.ask("chat")
        again = await it.client.ask("bad")
        await full.release()
        first = await held

    assert (first.status, second.status) == (200, 429)
    assert again.deployment == "s"
    assert len(bad.requests) == 1
    assert len(full.requests) == 1


async def test_term_drains_running_streams_and_exits_with_zero(tmp_path: Path) -> None:
    """REL-01: streams end whole, new requests are refused, readiness is off, then exit 0."""
    gate = asyncio.Event()
    engine = FakeEngine("a", otherwise=gated(gate))

    async with served(Node({"chat": engine}), tmp_path) as it:
        running = [asyncio.create_task(it.client.ask("chat", stream=True)) for _ in range(3)]
        await engine.arrived(3)
        await it.terminate()

        async def unready() -> bool:
            return await answered(it.client.get("/health/ready")) != 200

        await it.until(unready, "it says that it is ready")
        new = await answered(it.client.ask("chat"))
        assert it.process.returncode is None
        gate.set()
        replies = await asyncio.gather(*running)
        code = await asyncio.wait_for(it.process.wait(), 5)
        records = it.records()

    assert new in (503, None)
    assert [r.text for r in replies] == ["one two"] * 3
    assert all(r.done for r in replies)
    assert code == 0
    assert [r["outcome"] for r in records].count("ok") == 3
    assert len(engine.requests) == 3


async def answered(asked: Awaitable[Reply]) -> int | None:
    """The status of an answer; None if the port is closed."""
    try:
        return (await asked).status
    except (ConnectionError, asyncio.IncompleteReadError):
        return None


async def test_after_the_drain_limit_what_is_left_gets_an_error_event(tmp_path: Path) -> None:
    """Section 7: then an error event, flush, exit 0."""
    engine = FakeEngine("a", otherwise=gated(asyncio.Event()))

    async with served(Node({"chat": engine}, settings={"drain_s": 0.5}), tmp_path) as it:
        running = asyncio.create_task(it.client.ask("chat", stream=True))
        await engine.arrived(1)
        await it.terminate()
        got = await running
        code = await asyncio.wait_for(it.process.wait(), 5)
        records = it.records()

    assert got.error is not None
    assert not got.done
    assert code == 0
    assert [r["outcome"] for r in records] == ["failed"]


async def test_an_idle_gateway_stops_at_once(tmp_path: Path) -> None:
    async with served(Node({"chat": FakeEngine("a")}), tmp_path) as it:
        await it.client.ask("chat")
        await it.terminate()
        code = await asyncio.wait_for(it.process.wait(), 3)
        records = it.records()

    assert code == 0
    assert len(records) == 1


async def test_a_second_term_ends_at_once(tmp_path: Path) -> None:
    engine = FakeEngine("a", otherwise=gated(asyncio.Event()))

    async with served(Node({"chat": engine}), tmp_path) as it:
        running = asyncio.create_task(it.client.ask("chat", stream=True))
        await engine.arrived(1)
        await it.terminate()
        await asyncio.sleep(0.3)
        await it.terminate()
        await asyncio.wait_for(it.process.wait(), 3)
        await asyncio.gather(running, return_exceptions=True)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_interrupt_is_a_stop_as_well(tmp_path: Path, number: signal.Signals) -> None:
    async with served(Node({"chat": FakeEngine("a")}), tmp_path) as it:
        it.process.send_signal(number)
        code = await asyncio.wait_for(it.process.wait(), 5)

    assert code == 0


async def test_kill_in_the_middle_of_load_leaves_no_torn_line(tmp_path: Path) -> None:
    """Item 5: at most the records of the last second are lost; each line is whole."""
    engine = FakeEngine("a")

    async with served(Node({"chat": engine}), tmp_path) as it:
        load = [asyncio.create_task(hammer(it)) for _ in range(10)]
        await engine.arrived(500, within_s=20)
        it.process.kill()
        await it.process.wait()
        await asyncio.gather(*load)
        whole = it.activity.read_text().endswith("\n") or not it.activity.read_text()
        await it.start()
        await it.client.ask("chat")
        usage = (await it.operator.get("/api/usage")).json

    assert whole
    assert usage


async def hammer(it: Served) -> None:
    while True:
        try:
            await it.client.ask("chat")
        except (OSError, asyncio.IncompleteReadError):
            return


async def test_a_port_in_use_is_one_line_and_no_traceback(tmp_path: Path) -> None:
    async with served(Node({"chat": FakeEngine("a")}), tmp_path) as it:
        second = Served(tmp_path / "two", it.port)
        second.file.parent.mkdir()
        second.file.write_bytes(it.file.read_bytes())
        second.log.touch()
        code = await second.run()

    assert code != 0
    assert "Traceback" not in second.output()
    assert str(it.port) in second.output()
