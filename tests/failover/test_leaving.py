"""A caller that hangs up: in the stream, between the tries, and in a rescue."""

from __future__ import annotations

import pytest

from tests.client import PATHS, question
from tests.engine_answers import SILENT, Answer, Send, Silence
from tests.engine_wire import Received
from tests.failover.carried import BOTH_WAYS, breaks, carries_on, pair, whole
from tests.failover.reply import WORDS
from tests.harness import gateway

ROUTES = pytest.mark.parametrize("dialect", ["chat", "completions", "messages", "responses"])
CLOSE_S = 0.1  # of the wall


@pytest.mark.parametrize("dialect", ["chat", "completions", "messages", "responses"])
async def test_who_hangs_up_in_the_stream_is_let_go_and_nobody_else_is_asked(dialect: str) -> None:
    """CAN-01: the upstream's connection closes at once, and no rescue starts for nobody."""
    node, a, b = pair(breaks(Silence(), words=20), carries_on)

    async with gateway(node) as g:
        body = question("chat", dialect, stream=True)
        async with g.client.open(PATHS[dialect], body) as opened:
            await opened.text(20)
            left_at = opened.leave()
            closed_at = await a.requests[0].peer_close()
        record = await g.record()
        await g.idle()

    assert closed_at - left_at < CLOSE_S
    assert (len(a.requests), len(b.requests)) == (1, 0)
    assert record["outcome"] == "cancelled"
    assert 18 <= record["completion_tokens"] <= 22


@pytest.mark.parametrize(
    ("dialect", "way"),
    [(d, w) for d in ("chat", "completions", "messages") for w in BOTH_WAYS]
    + [("responses", "replay")],
)
async def test_who_leaves_while_the_spare_thinks_is_let_go(dialect: str, way: str) -> None:
    """The record counts what the caller had of A; B costs nothing."""
    node, _, b = pair(breaks(), SILENT, ways=[way])

    async with gateway(node) as g:
        body = question("chat", dialect, stream=True)
        async with g.client.open(PATHS[dialect], body) as opened:
            received = await b.arrived(1)
            await opened.text(40)
            left_at = opened.leave()
            closed_at = await received.peer_close()
        record = await g.record()
        await g.idle()

    assert closed_at - left_at < CLOSE_S
    assert len(b.requests) == 1
    assert record["outcome"] == "cancelled"
    assert [x["outcome"] for x in record["attempts"]] == ["broken", "cancelled"]
    assert 38 <= record["completion_tokens"] <= 42
    assert record["estimated"] is True


@ROUTES
async def test_who_leaves_while_the_spare_speaks_is_let_go(dialect: str) -> None:
    def five_more(received: Received) -> Answer:
        steps = whole()(received)
        last = next(
            n for n, s in enumerate(steps) if isinstance(s, Send) and WORDS[44].encode() in s.data
        )
        return (*steps[: last + 1], Silence())

    node, _, b = pair(breaks(), five_more, ways=["replay"])

    async with gateway(node) as g:
        body = question("chat", dialect, stream=True)
        async with g.client.open(PATHS[dialect], body) as opened:
            text = await opened.text(45)
            left_at = opened.leave()
            closed_at = await b.requests[0].peer_close()
        record = await g.record()
        await g.idle()

    assert text == "".join(WORDS[:45])
    assert closed_at - left_at < CLOSE_S
    assert record["outcome"] == "cancelled"
    assert record["deployment"] == "b"
    assert 43 <= record["completion_tokens"] <= 47
