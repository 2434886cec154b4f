"""The plan: each group once, depth first, through everybody's own fallbacks, and never for ever."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.config.config import Alias, Pin
from gateway.errors import BadRequest, NotFound, UnknownTask
from gateway.routing.plan import MAX_PAUSE_S, Plan, pause_s
from gateway.routing.table import RouteTable, resolve
from tests.routing.made import deployment, table

NAMES = ("a", "b", "c", "d", "e")
ALL = tuple(deployment(n, n) for n in NAMES)
GRAPHS = st.dictionaries(
    st.sampled_from(NAMES), st.lists(st.sampled_from(NAMES), unique=True, max_size=4).map(tuple)
)


def walk(found: RouteTable, name: str, *, overflow: bool = False) -> list[str]:
    """The groups of a request whose every group fails."""
    plan = Plan(found, found.routes[name], fallbacks=True)
    met = []
    while stage := plan.next():
        met.append(stage.group)
        plan.failed(stage, overflow=overflow)
    return met


def test_fallbacks_go_depth_first_in_the_order_of_the_file() -> None:
    found = table(*ALL, fallbacks={"a": ("b", "c"), "b": ("d",), "c": ("e",)})

    assert walk(found, "a") == ["a", "b", "d", "c", "e"]


@given(GRAPHS, st.lists(st.sampled_from(NAMES), unique=True, max_size=2).map(tuple))
def test_any_graph_is_walked_once_through_all_that_it_reaches(
    graph: dict[str, tuple[str, ...]], default: tuple[str, ...]
) -> None:
    """FBK-04: cycles too, though the checker refuses them."""
    found = table(*ALL, fallbacks=graph, default_fallbacks=default)
    reached, waiting = {"a"}, ["a"]
    while waiting:
        here = waiting.pop()
        for after in graph.get(here, default):
            if after not in reached:
                reached.add(after)
                waiting.append(after)

    met = walk(found, "a")

    assert len(met) == len(set(met))
    assert set(met) == reached


@given(GRAPHS, st.integers(0, 3))
def test_max_fallbacks_bounds_the_hops(graph: dict[str, tuple[str, ...]], most: int) -> None:
    found = table(*ALL, fallbacks=graph, max_fallbacks=most)
    plan = Plan(found, found.routes["a"], fallbacks=True)

    while stage := plan.next():
        assert stage.hops <= most
        plan.failed(stage, overflow=False)


def test_an_overflow_follows_context_window_fallbacks_alone() -> None:
    """FBK-07: the ordinary fallback is not used."""
    found = table(*ALL, fallbacks={"a": ("b",)}, context_window_fallbacks={"a": ("c",)})

    assert walk(found, "a", overflow=True) == ["a", "c"]
    assert walk(found, "b", overflow=True) == ["b"]


def test_an_alias_has_its_groups_fallbacks_unless_it_has_its_own() -> None:
    """ALS-01."""
    found = table(
        *ALL,
        fallbacks={"a": ("b",), "own": ("c",)},
        aliases={n: Alias(name=n, group="a") for n in ("plain", "own")},
    )

    assert walk(found, "plain") == ["a", "b"]
    assert walk(found, "own") == ["a", "c"]


def test_a_pin_without_fallbacks_goes_nowhere_else() -> None:
    found = table(
        *ALL,
        fallbacks={"a": ("b",)},
        pins={t: Pin(task=t, group="a", fallbacks=t == "open") for t in ("open", "closed")},
    )

    assert walk(found, "task/open") == ["a", "b"]
    assert walk(found, "task/closed") == ["a"]


def test_a_task_without_a_pin_is_refused_and_told_which_there_are() -> None:
    found = table(*ALL, pins={t: Pin(task=t, group="a") for t in ("title", "triage")})

    with pytest.raises(UnknownTask, match="title, triage"):
        resolve(found, "a", "compaction", set(found.routes))
    with pytest.raises(UnknownTask, match=r": title$"):
        resolve(found, "task/compaction", None, {"task/title"})
    assert resolve(found, "b", "title", set(found.routes)).group == "a", "a task beats the model"


def test_an_unknown_name_is_told_near_ones_that_the_key_may_use() -> None:
    found = table(deployment("x", "primary-chat"), deployment("y", "primary-secret"))

    with pytest.raises(NotFound, match="primary-chat") as refused:
        resolve(found, "primary-chta", None, {"primary-chat"})
    assert "secret" not in refused.value.message
    with pytest.raises(BadRequest, match="names no model"):
        resolve(found, None, None, set(found.routes))


@given(st.integers(0, 50), st.integers())
def test_pauses_grow_to_a_limit_and_vary(number: int, seed: int) -> None:
    """F2."""
    pause = pause_s(number, Random(seed))

    assert 0.0 <= pause <= min(0.5 * 2.0**number, MAX_PAUSE_S)
    assert pause_s(number, Random(seed)) != pause_s(number, Random(seed + 1))
