"""From a real request to its row: the gateway on a port, a scripted engine, the files of a box."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

from tests.engine import FakeEngine
from tests.engine_says import Say
from tests.harness import gateway
from tests.ledger import box
from tests.ledger.test_api import files
from tests.node import Node, member


async def test_what_a_deployment_served_is_charged_by_the_profile_that_it_names(
    tmp_path: Path,
) -> None:
    box.build(tmp_path)
    engine, other = FakeEngine("a", otherwise=Say(tokens=(1000, 500))), FakeEngine("b")
    node = Node(
        {"chat": member(engine, {"roi_profile": "qwen-35b"}), "other": other},
        settings={"ledger": asdict(files(tmp_path))},
    )

    async with gateway(node) as g:
        await g.client.ask("chat", stream=True)
        await g.client.ask("chat")
        await g.client.ask("other")
        await g.records(3)
        cost = (await g.operator.get("/api/usage")).json["cost"]

    tagged, untagged = cost["rows"]
    assert (tagged["key"], tagged["roi"], tagged["requests"]) == ("a", "qwen-35b", 2)
    assert (tagged["prompt_tokens"], tagged["completion_tokens"]) == (2000, 1000)
    assert tagged["usd"] == 0.0006
    assert (untagged["key"], untagged["usd"], untagged["source"]) == ("b", None, "untagged")
