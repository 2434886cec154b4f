"""config.example.yaml under the real stock proxy and under this gateway: the same records."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests import markers
from tests.client import Client, question
from tests.engine import FakeEngine
from tests.engine_answers import Pause, Reset, Silence, error, stream
from tests.engine_says import DONE, Say, delta, usage, usage_event
from tests.node import MASTER_KEY
from tests.stock.proxy import ROOT, Serving, stock_proxy, this_gateway

EXAMPLE = ROOT / "config.example.yaml"
UPSTREAMS = ("PRIMARY", "AUX", "VISION", "EMB_INGEST", "EMB_QUERY")
CLIENTS = ("OPEN_WEBUI", "AGENT_JOBS", "RAG", "DASHBOARD")
# Of one request in two processes these differ by nature; `error` only in its word.
BY_NATURE = {"id", "at", "queue_ms", "ttft_ms", "duration_ms", "tok_s", "error"}

Ask = Callable[[Client], Awaitable[Any]]
DETAILED = [
    delta("", role="assistant"),
    delta("Hel"),
    delta("lo"),
    delta(finish="stop"),
    usage_event(
        usage(
            70,
            30,
            prompt_tokens_details={"cached_tokens": 64},
            completion_tokens_details={"reasoning_tokens": 11},
        )
    ),
    DONE,
]
BEGUN = [delta("", role="assistant"), delta("Hel")]


def asks(model: str, **more: Any) -> Ask:
    """A short question."""
    return lambda client: client.ask(model, **more)


async def leaves(client: Client) -> None:
    """A client that goes away in the middle of a stream."""
    body = question("aux-35b", stream=True)
    async with client.open("/v1/chat/completions", body) as opened:
        await opened.text(1)
        opened.leave()


# (what it shows, whose engine, what that says next, the request, fields that differ on purpose)
CASES: tuple[tuple[str, str, Any, Ask, set[str]], ...] = (
    ("a chat", "PRIMARY", None, asks("primary-chat"), set()),
    ("a stream", "PRIMARY", None, asks("primary-chat", stream=True), set()),
    ("an alias", "AUX", None, asks("fast-chat"), set()),
    ("an app", "AUX", None, asks("aux-35b", headers={"X-Client": "notes"}), set()),
    ("details", "AUX", stream(DETAILED), asks("aux-35b", stream=True), set()),
    ("completions", "AUX", None, asks("aux-35b", dialect="completions"), set()),
    ("messages", "AUX", None, asks("aux-35b", dialect="messages"), set()),
    ("a messages stream", "AUX", None, asks("aux-35b", dialect="messages", stream=True), set()),
    ("responses", "AUX", None, asks("aux-35b", dialect="responses"), set()),
    ("embeddings", "EMB_QUERY", None, asks("emb-query", dialect="embeddings"), set()),
    ("the ingest lane", "EMB_INGEST", None, asks("emb-ingest", dialect="embeddings"), set()),
    ("a refusal", "AUX", error(400, "bad temperature"), asks("aux-35b"), set()),
    # The proxy answers 400 where this gateway answers 404.
    ("no such model", "AUX", None, asks("nothing-of-ours"), {"status"}),
    # What was counted of half an answer, each counts in its own way.
    ("a client leaves", "AUX", stream([*BEGUN, Silence()]), leaves, {"prompt_tokens"}),
    (
        "it breaks off",
        "AUX",
        stream([*BEGUN, Pause(0.1), Reset()]),
        asks("aux-35b", stream=True),
        {"prompt_tokens"},
    ),
)


@asynccontextmanager
async def engines() -> AsyncIterator[dict[str, FakeEngine]]:
    """The node's engines, scripted."""
    async with AsyncExitStack() as stack:
        yield {name: await stack.enter_async_context(FakeEngine(name)) for name in UPSTREAMS}


def environ(found: dict[str, FakeEngine]) -> dict[str, str]:
    """What the example needs."""
    keys = {f"{name}_API_KEY": markers.key("engine") for name in (*UPSTREAMS, "NEBIUS")}
    clients = {f"KEY_{name}": markers.key(name) for name in CLIENTS}
    bases = {f"{name}_API_BASE": engine.url for name, engine in found.items()}
    return {**keys, **clients, **bases, "GATEWAY_MASTER_KEY": MASTER_KEY}


async def written(
    served: Serving, number: int, engine: FakeEngine, says: Any, ask: Ask
) -> dict[str, Any]:
    """The record of one case."""
    engine.otherwise = says or Say()
    await ask(served.client)
    return await served.record(number)


def compared(record: dict[str, Any], but: set[str]) -> dict[str, Any]:
    """What must be equal of two records."""
    said = {k: v for k, v in record.items() if k not in BY_NATURE | but}
    said["attempts"] = [(a["deployment"], a["outcome"]) for a in record["attempts"]]
    return {**said, "has an error": record["error"] is not None}


@pytest.mark.timeout(240)  # the stock proxy takes half a minute to boot on a busy machine
async def test_the_stock_proxy_writes_the_records_that_this_gateway_writes(tmp_path: Path) -> None:
    async with engines() as found:
        async with (
            stock_proxy(EXAMPLE, environ(found), tmp_path) as stock,
            this_gateway(EXAMPLE, environ(found), tmp_path) as ours,
        ):
            for number, (name, engine, says, ask, but) in enumerate(CASES, start=1):
                theirs = await written(stock, number, found[engine], says, ask)
                own = await written(ours, number, found[engine], says, ask)

                assert compared(theirs, but) == compared(own, but), name
                assert (theirs["ttft_ms"] is None) == (own["ttft_ms"] is None), name

            # Neither records who has no key.
            for served in (stock, ours):
                await served.client.ask("aux-35b", key=markers.key("nobody"))
            await written(stock, len(CASES) + 1, found["AUX"], None, asks("aux-35b"))
            await written(ours, len(CASES) + 1, found["AUX"], None, asks("aux-35b"))
    assert len({r["id"] for r in stock.records()}) == len(CASES) + 1
