"""Reported faults that fit nowhere else: what one engine limits, and what one process is."""

from __future__ import annotations

import pytest

from gateway.cli import main
from gateway.config.load import load_text
from tests.engine import FakeEngine
from tests.engine_answers import error
from tests.engine_says import Say
from tests.harness import gateway
from tests.node import ENVIRON, Node, member

LIMIT = "batch size 1000 > maximum allowed batch size 32"


@pytest.mark.parametrize("status", [413, 422])
async def test_a_batch_above_the_engines_limit_is_refused_whole_and_once(status: int) -> None:
    """EMB-04: nothing is split; the engine's limit reaches the caller; no retry, no cooldown."""
    engine = FakeEngine("e", script=[error(status, LIMIT)])
    other = FakeEngine("other")
    node = Node(
        {
            "emb": member(engine, {"mode": "embedding"}),
            "chat": other,
        },
        router={"allowed_fails": 0, "cooldown_time": 60, "num_retries": 3},
    )

    async with gateway(node) as g:
        many = await g.client.ask("emb", dialect="embeddings", input=["x"] * 1000)
        few = await g.client.ask("emb", dialect="embeddings", input=["x"] * 32)

    assert many.status == status
    assert LIMIT in many.json["error"]["message"]
    assert few.status == 200
    assert len(engine.requests) == 2
    assert other.requests == []


async def test_dimensions_reach_the_engine_and_its_refusal_the_caller() -> None:
    """EMB-06 (b, c): the gateway neither drops the field nor cuts a vector."""
    said = error(400, "Model does not support matryoshka representation")
    engine = FakeEngine("e", script=[said], otherwise=Say())

    async with gateway(Node({"emb": member(engine, {"mode": "embedding"})})) as g:
        refused = await g.client.ask("emb", dialect="embeddings", dimensions=256)
        served = await g.client.ask("emb", dialect="embeddings", dimensions=768)

    assert refused.status == 400
    assert "matryoshka" in refused.json["error"]["message"]
    assert served.status == 200
    assert [b["dimensions"] for b in engine.bodies] == [256, 768]


def test_more_than_one_worker_is_not_to_be_had(capsys: pytest.CaptureFixture[str]) -> None:
    """CAP-05: caps hold because one process counts them; more would multiply them."""
    with pytest.raises(SystemExit) as ended:
        main(["serve", "node.yaml", "--workers", "4"])

    assert ended.value.code == 2
    assert "--workers" in capsys.readouterr().err


def test_a_weight_of_zero_is_refused_by_the_checker() -> None:
    """CAP-02: so there is never a group of which only zeros are left to choose from."""
    engines = [FakeEngine(name, port=port) for name, port in (("a", 8001), ("b", 8002))]
    members = [member(e, weight=w) for e, w in zip(engines, (1, 0), strict=True)]

    loaded = load_text(Node({"chat": members}).yaml("activity.jsonl"), "node.yaml", ENVIRON)

    assert loaded.config is None
    assert any("must be above 0" in p.message for p in loaded.problems)
