"""docs/fidelity.md is a tested table: each of its rows names the test that holds it."""

from __future__ import annotations

import re
from typing import Any

import pytest

from gateway.bridge.direct import OPENAI_WIRE
from tests.bridge.conftest import Start
from tests.bridge.test_messages import chat_only
from tests.engine import FakeEngine
from tests.engine_answers import reply
from tests.engine_says import usage
from tests.ground.repository import ROOT
from tests.node import Node

PAGE = (ROOT / "docs/fidelity.md").read_text()
ROWS = [
    line for line in PAGE.splitlines() if line.startswith("|") and not re.match(r"\|[-|]+$", line)
]
TESTS = "\n".join(path.read_text() for path in (ROOT / "tests/bridge").glob("test_*.py"))


@pytest.mark.parametrize("row", [row for row in ROWS if not row.endswith("| test |")])
def test_a_row_names_a_test_that_exists(row: str) -> None:
    found = re.search(r"\| `(test_\w+)` \|$", row)

    assert found, f"no test in: {row}"
    assert f"def {found[1]}(" in TESTS


def test_the_page_names_providers_that_go_the_direct_way() -> None:
    named = re.findall(r"`(\w+)/`", next(row for row in ROWS if "OpenAI's wire" in row))

    assert named
    assert set(named) <= OPENAI_WIRE


@pytest.mark.parametrize("dialect", ["messages", "responses"])
async def test_what_has_no_place_in_the_dialect_is_left_out(bridged: Start, dialect: str) -> None:
    def choice(index: int, **more: Any) -> dict[str, Any]:
        message = {"role": "assistant", "content": f"Hi {index}"}
        return {"index": index, "message": message, "finish_reason": "stop", **more}

    body = {"id": "c", "object": "chat.completion", "created": 1, "model": "m", "x_own": 1}
    first = choice(0, logprobs={"content": []})
    whole = {**body, "choices": [first, choice(1)], "usage": usage()}
    engine = FakeEngine(otherwise=reply(whole))

    async with bridged(Node({"chat": chat_only(engine)})) as g:
        got = await g.client.ask("chat", dialect=dialect)

    assert got.status == 200
    assert "Hi 0" in got.body.decode()
    assert "x_own" not in got.json
    assert "logprobs" not in got.body.decode()
