"""The scripted engine does what its scripts say: what the other tests stand on."""

from __future__ import annotations

import asyncio

import httpx
import pytest

from tests.client import Broken, Client, question
from tests.engine import FakeEngine
from tests.engine_answers import RESET, SILENT, Close, bytewise, error, head, raw, reply, stream
from tests.engine_says import DONE, Say, UsageForm, delta


def client_of(engine: FakeEngine) -> Client:
    return Client("127.0.0.1", engine.port, None)


@pytest.mark.parametrize("dialect", ["chat", "completions", "messages", "responses"])
async def test_it_speaks_every_dialect_streamed_and_whole(dialect: str) -> None:
    async with FakeEngine() as engine:
        whole = await client_of(engine).ask("m", dialect=dialect)
        streamed = await client_of(engine).ask("m", dialect=dialect, stream=True)

    assert whole.status == 200
    assert whole.json["model"] == "m"
    assert streamed.text == "Hello from here"
    assert streamed.done


async def test_it_follows_its_script_and_then_speaks_well() -> None:
    async with FakeEngine(script=[error(503, retry_after="2"), reply("<html>", 404)]) as engine:
        replies = [await client_of(engine).ask() for _ in range(3)]

    assert [r.status for r in replies] == [503, 404, 200]
    assert replies[0].headers["retry-after"] == "2"


async def test_each_write_is_a_read_of_its_own() -> None:
    answer = bytewise(stream([delta("é"), DONE]))
    async with FakeEngine(otherwise=answer) as engine:
        reader, writer = await asyncio.open_connection("127.0.0.1", engine.port)
        writer.write(b"POST /v1/x HTTP/1.1\r\ncontent-length: 2\r\n\r\n{}")
        reads = [len(await reader.read(65536)) for _ in range(200)]
        writer.close()

    assert max(reads) == 1


async def test_it_resets_cuts_and_lies_about_lengths() -> None:
    cut = (*stream([delta("a")], end=False), Close())
    async with FakeEngine(script=[RESET, cut, reply("{}", says_length=10)]) as engine:
        client = client_of(engine)

        with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
            await client.ask()
        with pytest.raises(Broken):
            await client.ask()
        with pytest.raises(Broken):
            await client.ask()


async def test_it_notes_the_peers_close() -> None:
    async with FakeEngine(otherwise=SILENT) as engine:
        async with client_of(engine).sending("/v1/chat/completions", question("m")) as opened:
            received = await engine.arrived(1)
            left_at = opened.leave()

            closed_at = await received.peer_close()

    assert 0 <= closed_at - left_at < 0.1
    assert received.header("content-type") == "application/json"


async def test_it_holds_requests_and_counts_the_peak() -> None:
    async with FakeEngine(held=True) as engine:
        asked = [asyncio.create_task(client_of(engine).ask()) for _ in range(5)]
        await engine.arrived(5)
        await engine.release(2)
        done, _ = await asyncio.wait(asked, return_when=asyncio.FIRST_COMPLETED)
        await engine.release()
        await asyncio.gather(*asked)

    assert 1 <= len(done) <= 2
    assert engine.peak == 5
    assert engine.running == 0


async def test_it_closes_idle_connections() -> None:
    async with FakeEngine(idle_close_s=0.05) as engine:
        reader, writer = await asyncio.open_connection("127.0.0.1", engine.port)
        ended = await asyncio.wait_for(reader.read(), 2)
        writer.close()

    assert ended == b""


async def test_it_loads_in_phases() -> None:
    async with FakeEngine(phase="closed") as engine, httpx.AsyncClient() as http:
        base = engine.url.removesuffix("/v1")
        with pytest.raises(httpx.ConnectError):
            await http.get(base + "/health")
        statuses = []
        for phase in ("loading", "listed", "ready"):
            await engine.become(phase)
            for path in ("/v1/models", "/health"):
                statuses.append((await http.get(base + path)).status_code)

    assert statuses == [503, 503, 200, 503, 200, 200]


async def test_a_strict_client_refuses_a_broken_event() -> None:
    bad = raw(head(chunked=True, content_type="text/event-stream") + b"9\r\ndata: {x\n\r\n")
    async with FakeEngine(otherwise=(*bad, Close())) as engine:
        with pytest.raises((AssertionError, ValueError)):
            await client_of(engine).ask(stream=True)


@pytest.mark.parametrize(
    ("form", "asks", "events"),
    [
        ("asked", False, 0),
        ("asked", True, 1),
        ("always", False, 1),
        ("never", True, 0),
        ("running", False, 6),
    ],
)
async def test_usage_comes_in_every_form(form: UsageForm, asks: bool, events: int) -> None:
    options = {"include_usage": True} if asks else None
    async with FakeEngine(otherwise=Say(usage=form)) as engine:
        reply = await client_of(engine).ask(stream=True, stream_options=options)

    assert len([e for e in reply.events if e.data and '"usage"' in e.data]) == events
