"""A and its spare for the tests of rescue: A breaks off, and the test says what B does."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tests.engine import FakeEngine, Play
from tests.engine_answers import Answer, Reset, Step
from tests.engine_says import Say
from tests.engine_wire import Received
from tests.failover.reply import TOKENS, WORDS
from tests.failover.upstream import Try, broken_off, spare, strict_spare
from tests.node import Node, member

SENT = "".join(WORDS[:40])
BOTH_WAYS = ("continue", "replay")


def breaks(*how: Step, words: int = 40) -> Callable[[Received], Answer]:
    """A's answer: so many words, then a reset, or these steps."""
    return lambda received: broken_off(_try(received), words, *(how or (Reset(),)))


def carries_on(received: Received) -> Answer:
    """B's answer: it goes on with a prefix, and else says the whole."""
    return spare(_try(received))


def refuses_a_prefix(received: Received) -> Answer:
    """B's answer: 400 to a prefix, and else the whole."""
    return strict_spare(_try(received))


def whole(words: Sequence[str] = WORDS, **say: Any) -> Say:
    """B's answer: these words, whatever it was asked."""
    return Say(words=tuple(words), tokens=TOKENS, **say)


def _try(received: Received) -> Try:
    return Try(received, 1, 0.0, 0.0)


def pair(
    a: Play,
    b: Play,
    *more: FakeEngine,
    ways: Sequence[str] = BOTH_WAYS,
    info: Mapping[str, Any] | None = None,
    **settings: Any,
) -> tuple[Node, FakeEngine, FakeEngine]:
    """The file, A and B. B takes a prefix unless `info` says else; `more` are further spares."""
    first, second = FakeEngine("a", otherwise=a), FakeEngine("b", otherwise=b)
    about = {"accepts_prefix": True, "engine": "vllm"} if info is None else info
    groups: dict[str, Any] = {"chat": member(first), "spare": member(second, about)}
    groups |= {e.name: member(e) for e in more}
    node = Node(
        groups,
        router={
            "num_retries": 2,
            "timeout": 30,
            "stream_timeout": 12,
            "fallbacks": [{"chat": ["spare", *(e.name for e in more)]}],
        },
        settings={"rescue": {"chat": list(ways)}, "stream_idle_timeout_s": 12, **settings},
    )
    return node, first, second
