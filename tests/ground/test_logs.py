"""Log lines: one look for ours and for libraries', and nothing secret in them."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator

import pytest
import structlog

from common import logs


@pytest.fixture(autouse=True)
def untouched() -> Iterator[None]:
    """Give the process its own logging back."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    structlog.reset_defaults()


def test_our_line_and_a_librarys_line_have_one_shape() -> None:
    out = io.StringIO()
    logs.configure(json=True, stream=out)

    structlog.get_logger().info("request", status=200, ttft_ms=12.5)
    logging.getLogger("uvicorn.error").warning("the library says %s", "so")

    ours, theirs = (json.loads(line) for line in out.getvalue().splitlines())
    assert (ours["event"], ours["status"], ours["level"]) == ("request", 200, "info")
    assert (theirs["event"], theirs["level"]) == ("the library says so", "warning")
    assert theirs["logger"] == "uvicorn.error"
    assert ours["timestamp"].endswith("Z")
    assert theirs["timestamp"].endswith("Z")


def test_a_line_below_the_level_is_not_written() -> None:
    out = io.StringIO()
    logs.configure("warning", json=True, stream=out)

    structlog.get_logger().info("request")
    logging.getLogger("LiteLLM").info("chatter")

    assert out.getvalue() == ""


def test_text_is_one_line_without_colours_where_nobody_looks() -> None:
    out = io.StringIO()
    logs.configure(stream=out)

    structlog.get_logger().info("reload", config="abc")

    assert out.getvalue().count("\n") == 1
    assert "reload" in out.getvalue()
    assert "config=abc" in out.getvalue()
    assert "\x1b" not in out.getvalue()


@pytest.mark.parametrize("field", sorted(logs.NEVER))
def test_a_field_that_a_line_may_not_hold_is_left_out(field: str) -> None:
    out = io.StringIO()
    logs.configure(json=True, stream=out)

    structlog.get_logger().error("mistake", **{field: "sentence-of-a-client"})

    assert "sentence-of-a-client" not in out.getvalue()


@pytest.mark.parametrize(
    "said", ["Authorization: Bearer {}", "key sk-{}", 'api_key="{}"', "api-key: {}"]
)
def test_a_key_in_a_librarys_line_is_left_out(said: str) -> None:
    out = io.StringIO()
    logs.configure(json=True, stream=out)

    logging.getLogger("LiteLLM").error(said.format("abcd1234efgh"))

    assert "abcd1234efgh" not in out.getvalue()


def test_an_exception_comes_with_its_traceback_in_the_same_line() -> None:
    out = io.StringIO()
    logs.configure(json=True, stream=out)

    try:
        raise ValueError("what happened")
    except ValueError:
        structlog.get_logger().exception("crash")

    (line,) = out.getvalue().splitlines()
    assert "what happened" in json.loads(line)["exception"]
