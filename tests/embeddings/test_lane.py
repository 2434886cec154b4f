"""The lane over real sockets, around a model that computes nothing."""

from __future__ import annotations

import asyncio
import json
import math

import httpx
import numpy as np

from serving.embeddings.app import Limits
from tests.embeddings.fake import FakeEncoder, served, until, words


def lengths(answer: httpx.Response) -> list[float]:
    """How long each row was, by its vector."""
    return [round(row["embedding"][0] / row["embedding"][3], 3) for row in answer.json()["data"]]


async def test_vectors_come_back_in_the_order_of_the_inputs() -> None:
    async with served(FakeEncoder()) as it:
        answer = await it.ask([words(n) for n in (9, 2, 40, 5, 3)])

    assert lengths(answer) == [9, 2, 40, 5, 3]
    assert [row["index"] for row in answer.json()["data"]] == [0, 1, 2, 3, 4]
    assert answer.json()["usage"] == {"prompt_tokens": 59, "total_tokens": 59}
    assert answer.json()["model"] == "fake"


async def test_a_short_query_waits_for_two_passes_at_most() -> None:
    async with served(FakeEncoder()) as it:
        it.encoder.open.clear()
        long = asyncio.create_task(it.ask(words(96)))
        await asyncio.to_thread(it.encoder.running.wait, 5)
        bulk = asyncio.create_task(it.ask([words(4)] * 20))
        await until(lambda: it.lane.waiting_tokens == 176)
        query = asyncio.create_task(it.ask("w7 w8"))
        await until(lambda: it.lane.waiting_tokens == 179)

        it.encoder.open.set()
        await query
        before = it.encoder.passes.index([3])
        await asyncio.gather(long, bulk)

    assert before <= 2
    assert len(it.encoder.passes) > 8  # and all of the others ran too


async def test_texts_that_wait_together_are_computed_together() -> None:
    async with served(FakeEncoder()) as it:
        it.encoder.open.clear()
        first = asyncio.create_task(it.ask("w2"))
        await asyncio.to_thread(it.encoder.running.wait, 5)
        others = [asyncio.create_task(it.ask(words(4))) for _ in range(4)]
        await until(lambda: it.lane.waiting_tokens == 18)

        it.encoder.open.set()
        await asyncio.gather(first, *others)

    assert it.encoder.passes == [[2], [4, 4, 4, 4]]


async def test_a_full_queue_is_429_with_the_time_to_wait() -> None:
    async with served(FakeEncoder()) as it:
        it.encoder.open.clear()
        waiting = [asyncio.create_task(it.ask(words(100))) for _ in range(2)]
        await until(lambda: it.lane.waiting_tokens == 200)

        refused = await it.ask("w2")
        it.encoder.open.set()
        good = [answer.status_code for answer in await asyncio.gather(*waiting)]

    assert refused.status_code == 429
    assert refused.json()["error"]["code"] == "queue_full"
    assert int(refused.headers["retry-after"]) >= 1
    assert good == [200, 200]


async def test_a_request_that_can_never_fit_is_413_and_not_429() -> None:
    async with served(FakeEncoder()) as it:
        tokens = await it.ask([words(50)] * 5)
        inputs = await it.ask(["w2"] * 2049)

    assert (tokens.status_code, inputs.status_code) == (413, 413)
    assert "200 tokens" in tokens.json()["error"]["message"]
    assert "2048" in inputs.json()["error"]["message"]


async def test_a_body_above_the_limit_is_413_with_the_limits() -> None:
    async with served(FakeEncoder(), limits=Limits(body_bytes=1000)) as it:
        answer = await it.ask("w2 " * 1000)

    assert answer.status_code == 413
    assert "1000 bytes" in answer.json()["error"]["message"]


async def test_the_work_of_a_client_that_left_is_dropped() -> None:
    async with served(FakeEncoder()) as it:
        it.encoder.open.clear()
        first = asyncio.create_task(it.ask("w2"))
        await asyncio.to_thread(it.encoder.running.wait, 5)
        left = asyncio.create_task(it.ask([words(9)] * 5))
        await until(lambda: it.lane.waiting_tokens == 47)

        left.cancel()
        await until(lambda: it.lane.waiting_tokens == 2)
        it.encoder.open.set()
        await first
        dropped = await it.metric("embeddings_dropped_rows_total")
        gone = await it.metric('embeddings_requests_total{code="gone"}')

    assert it.encoder.passes == [[2]]
    assert (dropped, gone) == (5, 1)


async def test_a_long_text_stops_between_passes_when_its_client_leaves() -> None:
    async with served(FakeEncoder()) as it:
        it.encoder.open.clear()
        left = asyncio.create_task(it.ask(words(96)))
        await asyncio.to_thread(it.encoder.running.wait, 5)

        left.cancel()
        await until(lambda: it.lane.waiting_tokens == 0)
        it.encoder.open.set()
        after = await it.ask("w2")

    assert after.status_code == 200
    assert it.encoder.passes == [[16], [2]]


async def test_a_pass_that_fails_is_500_for_its_own_requests_only() -> None:
    async with served(FakeEncoder()) as it:
        it.encoder.fails = True
        failed = await it.ask("w2")
        it.encoder.fails = False
        good = await it.ask("w2")

    assert failed.status_code == 500
    assert failed.json()["error"]["code"] == "embedding_failed"
    assert good.status_code == 200


async def test_with_a_key_nobody_else_is_served() -> None:
    async with served(FakeEncoder(), key="sk-lane") as it:
        without = await it.ask("w2")
        with_it = await it.client.post(
            "/v1/embeddings",
            json={"input": "w2"},
            headers={"Authorization": "Bearer sk-lane"},
        )
        models = await it.client.get("/v1/models")
        health = await it.client.get("/health")

    assert (without.status_code, with_it.status_code) == (401, 200)
    assert models.status_code == 401
    assert health.status_code == 200


async def test_health_states_the_bound() -> None:
    async with served(FakeEncoder()) as it:
        health = (await it.client.get("/health")).json()

    assert math.isclose(health["held_up_ms_at_most"], 2 * health["pass_ms"], abs_tol=0.2)
    assert health["waiting_tokens_limit"] == 200


async def test_a_cut_vector_is_normalised_again() -> None:
    encoder = FakeEncoder()
    encoder.traits = type(encoder.traits)(
        name="fake",
        dimensions=4,
        max_tokens=100,
        pass_tokens=16,
        waiting_tokens=200,
        smallest_cut=2,
    )
    async with served(encoder) as it:
        answer = await it.ask("w2 w3", dimensions=2)

    [row] = answer.json()["data"]
    assert len(row["embedding"]) == 2
    assert math.isclose(float(np.linalg.norm(row["embedding"])), 1.0, abs_tol=1e-6)


async def test_a_refusal_has_openais_shape() -> None:
    async with served(FakeEncoder()) as it:
        answer = await it.ask("")

    assert answer.status_code == 400
    assert json.loads(answer.content)["error"] == {
        "message": "input 0 is an empty string",
        "type": "invalid_request_error",
        "param": "input",
        "code": "empty_input",
    }
