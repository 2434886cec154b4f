"""STR-04: a fault of the gateway's own in mid-stream is an error event, and never a cut body."""

from __future__ import annotations

import pytest

from gateway.bridge.translate import BridgeSender
from gateway.config.config import Deployment
from gateway.exchange import Answer, Headers, Request
from tests.engine import FakeEngine
from tests.engine_says import delta
from tests.harness import gateway
from tests.node import Node, member


class Faulty(Answer):
    """An answer whose reader has a fault after so many chunks."""

    def __init__(self, chunks: int) -> None:
        self.status: int = 200
        self.headers: Headers = [(b"content-type", b"text/event-stream")]
        self._left = chunks

    def at_end(self) -> bool:
        return False

    async def read(self) -> bytes:
        self._left -= 1
        if self._left < 0:
            raise ZeroDivisionError
        return delta("word ")

    def abort(self, error: BaseException | None = None) -> None:
        """Nothing is open."""


class FaultySender(BridgeSender):
    """Stands where the bridge would."""

    def __init__(self, chunks: int) -> None:
        super().__init__()
        self._chunks = chunks

    async def send(self, request: Request, deployment: Deployment) -> Answer:
        return Faulty(self._chunks)


@pytest.mark.parametrize("chunks", [0, 2])
async def test_a_fault_of_its_own_is_told_and_the_body_ends_properly(chunks: int) -> None:
    node = Node({"chat": member(FakeEngine("e"), {"apis": ["embeddings"], "mode": "chat"})})

    async with gateway(node, bridge=FaultySender(chunks)) as g:
        got = await g.client.ask("chat", stream=True)
        record = await g.record()
        after = await g.in_flight()

    assert got.error is not None
    assert not got.done
    assert got.status == (200 if chunks else 500)
    assert "ZeroDivision" not in got.body.decode()
    assert record["outcome"] == "failed"
    assert after == 0
