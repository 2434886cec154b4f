"""Other people's CustomLoggers, called by a serving process behind its requests."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

from tests.callbacks.theirs import noted, with_callbacks, write_modules
from tests.engine import FakeEngine
from tests.engine_answers import error
from tests.harness import total, until
from tests.markers import PROMPT
from tests.node import Node, member
from tests.served import Served, free_port

LOAD_S = 60.0  # their process imports litellm, which takes seconds of CPU


@asynccontextmanager
async def serving(
    folder: Path, node: Node, *names: str, content: bool = False
) -> AsyncIterator[Served]:
    """The gateway as people run it, with callbacks next to its file."""
    async with AsyncExitStack() as stack:
        for engine in node.engines():
            await stack.enter_async_context(engine)
        it = Served(folder, free_port())
        write_modules(folder)
        it.file.write_bytes(with_callbacks(node, it.activity, *names, content=content))
        await it.start()
        try:
            yield it
        finally:
            if it.process.returncode is None:
                await it.terminate()
                await it.process.wait()


async def notes(folder: Path, count: int) -> list[dict[str, Any]]:
    """What the good callback has noted, once there are so many."""
    await until(lambda: len(noted(folder)) >= count, LOAD_S)
    found = noted(folder)
    assert len(found) == count, found
    return found


async def lost_are(it: Served, count: int) -> bool:
    """Whether so many calls are lost by now, by the metrics."""
    text = (await it.operator.get("/metrics")).body.decode()
    return total(text, "gateway_callbacks_lost_total") == count


async def test_a_callback_is_told_of_every_request_and_others_that_fail_harm_nobody(
    tmp_path: Path,
) -> None:
    good, dead = FakeEngine("good"), FakeEngine("dead", status=503)
    node = Node(
        {"chat": good, "dead": dead, "alone": member(dead, {"id": "alone"})},
        router={"fallbacks": [{"dead": ["chat"]}], "num_retries": 0},
    )
    every = ("notes_cb.notes", "bad_cb.raises", "bad_cb.blocks", "broken_cb.hook")
    async with serving(tmp_path, node, *every) as it:
        whole = await it.client.ask("chat")
        streamed = await it.client.ask("chat", stream=True)
        moved = await it.client.ask("dead")
        failed = await it.client.ask("alone")
        found = await notes(tmp_path, 5)
        # Three successes that one callback raised on, and four of the one that cannot be loaded.
        await it.until(lambda: lost_are(it, 7), "what failed is not counted")

        good.otherwise = error(400, "bad temperature")
        fast = await it.client.ask("chat", within_s=2.0)
        output = it.output()

    assert [r.status for r in (whole, streamed, moved)] == [200, 200, 200]
    assert (failed.status >= 500, fast.status) == (True, 400)
    assert sorted(row["hook"] for row in found) == ["failure", "fallback", "success", "success",
                                                    "success"]  # fmt: skip
    for row in found:
        assert row["client"] == "tester"
        assert PROMPT not in str(row)
        assert row["messages"] == [{"role": "user", "content": "redacted-by-litellm"}]
        assert row["seconds"] > 0
    done = [row for row in found if row["hook"] == "success"]
    assert all(row["tokens"] == [7, 3] and row["usage"] == 10 for row in done)
    assert all(row["type"] == "ModelResponse" for row in done)
    (fallback,) = (row for row in found if row["hook"] == "fallback")
    assert (fallback["instead_of"], fallback["after"]) == ("dead", "ServiceUnavailableError")
    (failure,) = (row for row in found if row["hook"] == "failure")
    assert (failure["status"], failure["exception"]) == ("failure", "ServiceUnavailableError")
    # What they print, and why one cannot be used, is in the log; what one raised is not.
    assert "what callbacks print" in output
    assert "broken_cb.hook cannot be imported: RuntimeError: no such service" in output
    assert "bad_cb.raises raised ValueError" in output
    assert "redacted-by" not in output


async def test_messages_and_answers_are_given_where_the_file_says_so(tmp_path: Path) -> None:
    async with serving(tmp_path, Node({"chat": FakeEngine("a")}), "notes_cb.notes",
                       content=True) as it:  # fmt: skip
        await it.client.ask("chat")
        await it.client.ask("chat", stream=True)
        await it.client.ask("chat", dialect="completions")
        await it.client.ask("chat", dialect="messages", stream=True)
        await it.client.ask("chat", dialect="embeddings")
        await it.client.ask("chat", dialect="responses", stream=True)
        found = await notes(tmp_path, 6)

    for row in found:
        assert PROMPT in str(row["messages"]), row
        assert row["messages"] == row["payload_messages"]
    texts = [row for row in found if row["type"] != "EmbeddingResponse"]
    assert len(texts) == 5
    for row in texts:
        assert "Hello from here" in row["response"], row
