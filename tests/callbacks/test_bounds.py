"""What waits for other people's callbacks is bounded, and what finds no room is counted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gateway.bridge.content import MAX_BYTES, Tee, answer, messages
from gateway.bridge.loggers import MAX_WAITING_BYTES, Loggers, others
from gateway.bridge.payload import Content
from gateway.config.config import Config
from gateway.inbound import HeaderMap, Headers
from tests.callbacks.theirs import noted, write_modules
from tests.engine import FakeEngine
from tests.harness import configured, until
from tests.node import Node
from tests.records.build import record


@pytest.fixture
def config(tmp_path: Path) -> Config:
    return configured(Node({"chat": FakeEngine("a", port=9)}), tmp_path / "activity.jsonl")


def test_our_recorder_and_litellms_own_callbacks_are_never_called(config: Config) -> None:
    named = ("gateway.bridge.callbacks.recorder", "prometheus", "mine.logger")

    assert others(replace(config, callbacks=named)) == ("mine.logger",)


def test_a_queue_that_is_full_turns_events_away_and_counts_each_call(config: Config) -> None:
    loggers = Loggers(("a.b", "c.d"), "config.yaml", max_waiting=2)

    for number in range(5):
        loggers.write(record(number), config)

    assert loggers.lost == 3 * 2


def test_content_has_a_bound_of_its_own(config: Config) -> None:
    loggers, half = Loggers(("a.b",), "config.yaml"), "x" * (MAX_WAITING_BYTES // 2 + 1)

    loggers.write(record(1), config, Content(answer=half))
    loggers.write(record(2), config, Content(answer=half))
    loggers.write(record(3), config)

    assert loggers.lost == 1


async def test_what_was_never_told_is_lost_at_the_end(config: Config) -> None:
    loggers = Loggers(("a.b",), "config.yaml")
    loggers.write(record(1), config)

    await loggers.close()
    loggers.write(record(2), config)

    assert loggers.lost == 2


class Sent:
    """A request of two bytes, and what is sent in answer."""

    path, client_ip, full = "/v1/chat/completions", "127.0.0.1", False
    on_left: Callable[[], None] | None = None

    def __init__(self) -> None:
        self.headers: HeaderMap = {}
        self.pieces: list[bytes] = []

    async def body(self, max_bytes: int) -> bytes:
        return b"{}"

    def start(self, status: int, headers: Headers) -> None:
        """Only pieces count here."""

    def write(self, data: bytes, *, last: bool = False) -> None:
        self.pieces.append(data)

    async def drain(self) -> None:
        """It is never behind."""


async def test_an_answer_above_the_bound_is_left_out_and_still_sent() -> None:
    inbound = Sent()
    begun: dict[str, Tee] = {}
    tee = Tee(inbound, begun)
    await tee.body(100)

    tee.start(200, [(b"x-gateway-request-id", b"7")])
    for _ in range(3):
        tee.write(b"x" * (MAX_BYTES // 2))

    assert begun == {"7": tee}
    assert len(inbound.pieces) == 3
    assert tee.content() == Content(request="{}", answer="")


@pytest.mark.parametrize(
    ("dialect", "body", "said"),
    [
        ("chat", '{"messages": [{"role": "user", "content": "a"}]}', "a"),
        ("completions", '{"prompt": "a"}', "a"),
        ("responses", '{"input": "a"}', "a"),
        ("rerank", '{"query": "a", "documents": []}', "a"),
    ],
)
def test_messages_are_read_from_each_dialect(dialect: Any, body: str, said: str) -> None:
    found = messages(Content(request=body), dialect)

    assert found == [{"role": "user", "content": said}]


def test_what_cannot_be_read_is_none() -> None:
    for text in ("", "no json", '"a"', "data: nothing\n\n"):
        assert messages(Content(request=text), "chat") is None
    assert answer(Content(answer="no json"), "chat") is None
    assert answer(Content(answer=": keep-alive\n\n"), "chat") is None


def test_a_streams_reasoning_and_text_are_put_together_across_comments() -> None:
    stream = (
        ': keep-alive\n\ndata: {"choices":[{"delta":{"reasoning":"hm"}}]}\n\n'
        'data: {"choices":[{"delta":{"content":"a"},"finish_reason":null}]}\r\n\r\n'
        'data: {"choices":[{"delta":{"content":"b"},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'
    )

    (choice,) = answer(Content(answer=stream), "chat")["choices"]

    assert choice["message"] == {"role": "assistant", "content": "ab", "reasoning_content": "hm"}
    assert choice["finish_reason"] == "stop"


async def test_a_callback_that_ends_the_process_costs_what_was_under_way_and_no_more(
    config: Config, tmp_path: Path
) -> None:
    write_modules(tmp_path)
    loggers = Loggers(("ends_cb.ends",), str(tmp_path / "config.yaml"), restart_s=0.0)
    loggers.start()

    loggers.write(record(1, outcome="failed", status=502), config)
    await _until(lambda: loggers.lost == 1)
    loggers.write(record(2), config)
    await _until(lambda: len(noted(tmp_path)) == 1)
    await loggers.close()

    assert loggers.lost == 1
    assert noted(tmp_path)[0]["hook"] == "success"


async def _until(true: Callable[[], bool]) -> None:
    await until(true, 60.0)  # each process imports litellm, which takes seconds of CPU
    assert true()
