"""What `gateway render --stock` writes, booted by the real stock proxy."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from gateway.bridge.payload import Event, kwargs
from gateway.cli import main
from tests.callbacks.theirs import noted, with_callbacks, write_modules
from tests.client import question
from tests.engine import FakeEngine
from tests.engine_answers import error
from tests.engine_says import Say
from tests.node import ENVIRON, Node, member
from tests.records.build import record
from tests.stock.proxy import Serving, stock_proxy


@dataclass(frozen=True)
class Engines:
    """People's engine, the background's, the one behind both, and one that is always down."""

    people: FakeEngine
    work: FakeEngine
    spare: FakeEngine
    down: FakeEngine


def node(e: Engines) -> Node:
    """A node with everything that the proxy must carry over."""
    return Node(
        {
            "chat": member(e.people),
            "work": [member(e.work, weight=3), member(e.down, weight=1)],
            "broken": member(e.down, {"id": "broken"}),
            "spare": member(e.spare),
        },
        tiers={"auxiliary": ["work", "broken", "spare"]},
        router={"fallbacks": [{"broken": ["spare"]}], "num_retries": 0, "allowed_fails": 1},
        aliases={"quick": "broken"},
        pins={"title": "broken", "sort": {"model": "broken", "fallbacks": False}},
    )


async def ask(served: Serving, number: int, model: str, **more: Any) -> dict[str, Any]:
    """The record of a short question."""
    await served.client.ask(model, **more)
    return await served.record(number)


@pytest.mark.timeout(240)  # the stock proxy takes half a minute to boot on a busy machine
async def test_the_real_proxy_serves_it_and_keeps_the_records(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in ENVIRON.items():
        monkeypatch.setenv(name, value)
    async with (
        FakeEngine("people") as people,
        FakeEngine("work") as work,
        FakeEngine("spare") as spare,
        FakeEngine("down", status=503) as down,
    ):
        file, out = tmp_path / "config.yaml", tmp_path / "stock.yaml"
        engines = Engines(people, work, spare, down)
        file.write_bytes(with_callbacks(node(engines), Path("run/a.jsonl"), "notes_cb.notes"))
        write_modules(tmp_path)
        assert main(["render", "--stock", str(file), "-o", str(out)]) == 0

        environ = {**ENVIRON, "SIGNALBOX_CONFIG": str(file)}
        async with stock_proxy(out, environ, tmp_path) as proxy:
            task = await ask(proxy, 1, "task/title")
            alias = await ask(proxy, 2, "quick", stream=True)
            alone = await ask(proxy, 3, "task/sort")
            shared = [await ask(proxy, n, "work") for n in range(4, 12)]
            gone = await _left_early(proxy, people, 12)
            people.otherwise = error(400, "bad temperature")
            refused = await ask(proxy, 13, "chat")

    _same_payload_as_ours(next(row for row in noted(tmp_path) if row["hook"] == "success"))
    # A task is an alias there, with its group's fallbacks, unless its pin says otherwise.
    assert (task["task"], task["tier"], task["outcome"]) == ("title", "auxiliary", "ok")
    assert [(a["deployment"], a["outcome"]) for a in task["attempts"]] == [
        ("broken", "http-503"),
        ("spare", "ok"),
    ]
    assert (task["group"], task["deployment"]) == ("spare", "spare")
    assert (alias["requested_model"], alias["stream"], alias["group"]) == ("quick", True, "spare")
    assert (alone["outcome"], alone["status"]) in (("failed", 503), ("refused", 429))
    # A member that is down costs no client an error: the next one is tried at once.
    assert {r["outcome"] for r in shared} == {"ok"}
    assert {r["deployment"] for r in shared} == {"work"}
    # A client that leaves before an answer is noticed there too.
    assert (gone["outcome"], gone["status"]) == ("cancelled", 499)
    assert (refused["outcome"], refused["status"]) == ("refused", 400)


async def _left_early(proxy: Serving, engine: FakeEngine, number: int) -> dict[str, Any]:
    await engine.hold()
    async with proxy.client.sending("/v1/chat/completions", question("chat")) as opened:
        await engine.arrived(len(engine.requests) + 1)
        opened.leave()
    record = await proxy.record(number)
    engine.otherwise = Say()
    await engine.release()
    return record


# What the proxy tells a callback and this gateway does not: a key, headers, and its own workings.
NOT_OURS = {
    *("api_key", "applied_guardrails", "extra_body", "first_api_call_start_time"),
    *("has_logged_async_success", "llm_api_duration_ms", "log_event_type", "max_retries"),
    *("model_id", "response_headers", "served_output_texts", "stream_options"),
    *("zero_cost_diagnostic", "routing_decision"),
    # Of a first group that failed, left in what is told of the group that served.
    *("exception", "traceback_exception", "has_logged_async_failure", "has_logged_sync_failure"),
    "prompt",
}
NOT_OURS_IN_PAYLOAD = {
    *("autorouter_savings", "autorouter_savings_estimate", "autorouter_baseline_observation"),
    "zero_cost_diagnostic",
}


def _same_payload_as_ours(theirs: dict[str, Any]) -> None:
    """A logger that reads a key under the proxy finds it here."""
    said = kwargs(Event(record=record()), [], {})

    missing = set(theirs["keys"]) - set(said) - NOT_OURS
    missing_in_payload = set(theirs["payload_keys"]) - set(said["standard_logging_object"])

    assert not missing
    assert not missing_in_payload - NOT_OURS_IN_PAYLOAD
