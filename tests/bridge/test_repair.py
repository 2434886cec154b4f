"""Engines' streams are put in order before they are translated. Pure: chunks in, chunks out."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gateway.bridge.repair import Repair, Unfinished, whole


def chunk(finish: str | None = None, **delta: Any) -> dict[str, Any]:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return {"id": "c", "model": "served", "created": 1, "choices": [choice]}


def call(
    arguments: str = "",
    *,
    key: str | None = None,
    index: int | None = None,
    name: str | None = None,
) -> dict[str, Any]:
    function = {"arguments": arguments, **({"name": name} if name else {})}
    one = {"id": key, "index": index, "function": function}
    return {k: v for k, v in one.items() if v is not None}


def repaired(*chunks: dict[str, Any]) -> list[dict[str, Any]]:
    repair = Repair()
    made = [each for one in chunks for each in repair.chunk(one)]
    return [*made, *repair.end()]


def deltas(made: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [c["choices"][0]["delta"] for c in made if c["choices"] and c["choices"][0]["delta"]]


def calls(made: list[dict[str, Any]]) -> list[tuple[str, str, str]]:
    """(id, name, arguments) of each call, put together as a client does: by index alone."""
    found: dict[int, list[str]] = {}
    for delta in deltas(made):
        for one in delta.get("tool_calls", ()):
            parts = found.setdefault(one["index"], ["", "", ""])
            parts[0] = one.get("id") or parts[0]
            parts[1] = one["function"].get("name") or parts[1]
            parts[2] += one["function"]["arguments"]
    return [(a, b, c) for a, b, c in found.values()]


def reasons(made: list[dict[str, Any]]) -> list[str]:
    return [
        c["choices"][0]["finish_reason"]
        for c in made
        if c["choices"] and c["choices"][0]["finish_reason"]
    ]


def test_two_calls_that_share_index_0_stay_two() -> None:
    """STR-14."""
    made = repaired(
        chunk(tool_calls=[call('{"a":', key="A", index=0, name="f")]),
        chunk(tool_calls=[call("1}", index=0)]),
        chunk(tool_calls=[call('{"b":2}', key="B", index=0, name="g")]),
        chunk("tool_calls"),
    )

    assert calls(made) == [("A", "f", '{"a":1}'), ("B", "g", '{"b":2}')]


def test_calls_without_an_index_are_told_apart_by_their_heads() -> None:
    """STR-15: two without any index, the third with index 2."""
    made = repaired(
        chunk(tool_calls=[call(key="A", name="f")]),
        chunk(tool_calls=[call('{"a"')]),
        chunk(tool_calls=[call(":1}")]),
        chunk(tool_calls=[call(key="B", name="g")]),
        chunk(tool_calls=[call("{}")]),
        chunk(tool_calls=[call("{}", key="C", index=2, name="h")]),
        chunk("tool_calls"),
    )

    assert calls(made) == [("A", "f", '{"a":1}'), ("B", "g", "{}"), ("C", "h", "{}")]
    assert all(json.loads(arguments) is not None for _, _, arguments in calls(made))


def test_interleaved_calls_keep_their_own_arguments() -> None:
    made = repaired(
        chunk(
            tool_calls=[
                call('{"a"', key="A", index=0, name="f"),
                call('{"b"', key="B", index=1, name="g"),
            ]
        ),
        chunk(tool_calls=[call(":1}", index=0)]),
        chunk(tool_calls=[call(":2}", index=1)]),
        chunk("tool_calls"),
    )

    assert calls(made) == [("A", "f", '{"a":1}'), ("B", "g", '{"b":2}')]


def test_an_engine_that_repeats_the_id_in_every_delta_makes_one_call() -> None:
    made = repaired(
        chunk(tool_calls=[call('{"a"', key="A", index=0, name="f")]),
        chunk(tool_calls=[call(":1}", key="A", index=0)]),
        chunk("tool_calls"),
    )

    assert calls(made) == [("A", "f", '{"a":1}')]


@pytest.mark.parametrize(
    ("delta", "said", "expected"),
    [
        ({"tool_calls": [call("{}", key="A", index=0, name="f")]}, "stop", "tool_calls"),  # STR-12
        ({"content": "text"}, "tool_calls", "stop"),  # STR-13
        ({"content": "text"}, "length", "length"),  # STR-25
        ({"content": "text"}, "content_filter", "content_filter"),
    ],
)
def test_the_finish_reason_is_what_the_content_says(
    delta: dict[str, Any], said: str, expected: str
) -> None:
    assert reasons(repaired(chunk(**delta), chunk(said))) == [expected]


def test_a_finish_reason_in_the_middle_ends_nothing() -> None:
    """STR-26: it came with reasoning; text follows, and another one."""
    made = repaired(
        chunk("stop", reasoning_content="hm"), chunk(content="Hi"), chunk("stop", content="!")
    )

    assert reasons(made) == ["stop"]
    assert deltas(made) == [{"reasoning_content": "hm"}, {"content": "Hi"}, {"content": "!"}]
    assert made[-1]["choices"][0]["finish_reason"] == "stop"


@pytest.mark.parametrize(
    "delta",
    [
        {"reasoning": "hm"},
        {"reasoning_content": "hm"},
        {"reasoning": "hm", "reasoning_content": "hm"},
    ],
)
def test_reasoning_has_one_name_and_is_never_doubled(delta: dict[str, Any]) -> None:
    """STR-17."""
    assert deltas(repaired(chunk(**delta), chunk("stop"))) == [{"reasoning_content": "hm"}]


def test_a_chunk_with_all_kinds_of_content_becomes_one_of_each() -> None:
    made = repaired(
        chunk(
            "stop", reasoning="r", content="c", tool_calls=[call("{}", key="A", index=0, name="f")]
        )
    )

    assert [min(delta) for delta in deltas(made)] == [
        "reasoning_content",
        "content",
        "tool_calls",
    ]
    assert reasons(made) == ["tool_calls"]


def test_usage_comes_last_and_is_the_last_that_was_said() -> None:
    first = {**chunk(content="a"), "usage": {"prompt_tokens": 7, "completion_tokens": 1}}
    last = {**chunk("stop"), "usage": {"prompt_tokens": 7, "completion_tokens": 2}}

    made = repaired(first, last)

    assert [c.get("usage") for c in made] == [None, None, last["usage"]]


def test_a_stream_without_a_finish_reason_is_not_whole() -> None:
    """STR-01."""
    with pytest.raises(Unfinished):
        repaired(chunk(content="a"))


def test_a_whole_answer_is_put_in_order_too() -> None:
    message = {
        "role": "assistant",
        "content": None,
        "reasoning": "r",
        "tool_calls": [call("{}", name="f")],
    }

    made = whole(
        {"model": "served", "choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}
    )

    choice = made["choices"][0]
    assert choice["finish_reason"] == "tool_calls"
    assert choice["message"]["reasoning_content"] == "r"
    assert choice["message"]["tool_calls"][0]["id"] == "call_0"
