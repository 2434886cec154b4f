"""The slot with real engines, through the gateway, with the official clients."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path
from random import Random

import openai
import pytest

from tests.slot.real.box import ANSWER, MODELS, Box, box, until


async def test_three_models_swap_under_streams_messages_and_embeddings(tmp_path: Path) -> None:
    """Every caller is answered by the model it named, whoever else asks for what."""
    random = Random(6)
    async with box(tmp_path) as it:
        ways = (it.chat, it.stream, it.message)
        asked = [(random.choice(MODELS), random.choice(ways)) for _ in range(36)]
        answers = await asyncio.gather(
            *(way(model, "hi") for model, way in asked),
            *(it.embed(f"text {i}") for i in range(12)),
        )
        records = await it.records(len(answers))
        loads = (await it.plane.status())["loads"]
        leases = (await it.plane.until(lambda found: not found["leases"]))["leases"]

    assert answers[: len(asked)] == [ANSWER] * len(asked)
    assert all(len(vector) > 8 for vector in answers[len(asked) :])
    assert set(loads) == set(MODELS)
    assert sum(each["count"] for each in loads.values()) <= 9
    assert leases == 0
    served = [r for r in records if r["group"] != "emb"]
    assert all(r["recipe"] == r["group"] and r["outcome"] == "ok" for r in served)


async def test_active_is_whatever_is_loaded_and_the_headers_say_what(tmp_path: Path) -> None:
    async with box(tmp_path) as it:
        await it.chat("two", "hi")
        raw = await it.openai.chat.completions.with_raw_response.create(
            model="active", messages=[{"role": "user", "content": "hi"}]
        )
        said = raw.parse()

    assert raw.headers["x-slot-active-profile"] == "two"
    assert raw.headers["x-slot-served-model"] == "two-model"
    assert raw.headers["x-slot-upstream-port"] == str(it.plane.engine_port)
    assert said.model == "two-model"
    assert said.choices[0].message.content == ANSWER


async def test_a_swap_ends_an_endless_stream_at_the_drain_limit_with_an_error_event(
    tmp_path: Path,
) -> None:
    """SWP-03: the limit is the file's, and the client is told."""
    async with box(tmp_path, drain_s=0.5) as it:
        began = asyncio.Event()
        endless = asyncio.create_task(_endless(it, began))
        await began.wait()
        other = await it.chat("two", "hi")
        with pytest.raises(openai.APIError) as ended:
            await endless
        records = await it.records(2)

    assert other == ANSWER
    assert "swap" in str(ended.value)
    assert sorted(r["outcome"] for r in records) == ["failed", "ok"]


async def test_an_engine_that_is_killed_fails_its_stream_and_is_loaded_again(
    tmp_path: Path,
) -> None:
    async with box(tmp_path) as it:
        began = asyncio.Event()
        endless = asyncio.create_task(_endless(it, began))
        await began.wait()
        [pid] = it.engine_pids()
        os.kill(pid, signal.SIGKILL)
        with pytest.raises(openai.APIError):
            await endless
        again = await _patient(it, "one")

    assert again == ANSWER


async def test_a_killed_control_plane_costs_no_stream_and_no_caller(tmp_path: Path) -> None:
    """Kill -9 while one model streams and another is asked for: both are served."""
    async with box(tmp_path) as it:
        began, stop = asyncio.Event(), asyncio.Event()
        endless = asyncio.create_task(_endless(it, began, stop))
        await began.wait()
        [pid] = it.engine_pids()
        it.control.kill()
        held = asyncio.create_task(it.chat("two", "hi"))
        await it.control.start()
        adopted = it.engine_pids()
        stop.set()
        streamed = await endless
        answered = await held

    assert adopted == [pid]
    assert streamed > 5
    assert answered == ANSWER


async def test_a_restart_of_the_gateway_touches_no_engine(tmp_path: Path) -> None:
    async with box(tmp_path) as it:
        await it.chat("one", "hi")
        before = it.engine_pids()
        it.gateway.process.kill()
        await it.gateway.process.wait()
        await it.gateway.start()
        again = await it.chat("one", "hi")
        after = it.engine_pids()

    assert again == ANSWER
    assert before == after != []


async def test_an_embedding_goes_on_while_a_model_is_loaded(tmp_path: Path) -> None:
    async with box(tmp_path) as it:
        loading = asyncio.create_task(it.chat("one", "hi"))
        vectors = 0
        while not loading.done():
            await it.embed("text")
            vectors += 1
        await loading
        await until(lambda: it.engine_pids())

    assert vectors > 0


async def _endless(it: Box, began: asyncio.Event, stop: asyncio.Event | None = None) -> int:
    """Read the model's endless answer, until told to stop; how many pieces came."""
    chunks = await it.openai.chat.completions.create(
        model="one",
        messages=[{"role": "user", "content": "loop"}],
        stream=True,
        max_tokens=100_000,
    )
    seen = 0
    async for _ in chunks:
        seen += 1
        if seen > 5:
            began.set()
        if stop is not None and stop.is_set():
            await chunks.close()
            break
    return seen


async def _patient(it: Box, model: str) -> str:
    """As a client that comes back when it was told to."""
    async with asyncio.timeout(20):
        while True:
            try:
                return await it.chat(model, "hi")
            except (openai.InternalServerError, openai.APIConnectionError) as error:
                wait_s = getattr(getattr(error, "response", None), "headers", {}).get("retry-after")
                await asyncio.sleep(min(float(wait_s or 0.1), 1.0))
