"""What one row of the reach table says."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gateway.config.config import Config
from gateway.config.isolation import Bound, Reach, reaches
from tests.isolation.build import config, member


@pytest.fixture
def made() -> Config:
    """Background with weights 10 and 1, and burst after it."""
    return config(
        member("chat", "gpu-1:8000"),
        member("jobs", "gpu-2:8000", weight=10.0),
        member("jobs", "gpu-1:8000", 1, weight=1.0, rpm=4, max_parallel_requests=1),
        member("jobs", "gpu-4:8000", 2, weight=1.0, order=2),
        member("cloud", "cloud:443"),
        tiers={"chat": "interactive", "jobs": "background", "cloud": "burst"},
        aliases={"work": "jobs"},
        pins={"title": "jobs"},
        fallbacks={"jobs": ("cloud",), "work": ()},
    )


def rows(made: Config, name: str) -> list[Reach]:
    """The rows of one name."""
    return [r for r in reaches(made) if r.name == name]


def test_a_share_is_the_part_of_the_weights_on_the_lowest_order_level(made: Config) -> None:
    found = rows(made, "jobs")

    assert [r.how for r in found] == ["share", "share", "order", "fallback"]
    assert [r.weights for r in found] == [(10.0, 11.0), (1.0, 11.0), None, None]
    assert found[1].share == pytest.approx(1 / 11)


def test_without_weights_the_shares_are_equal() -> None:
    made = config(*(member("g", f"gpu-{n}:8000", n) for n in range(4)), tiers={"g": "background"})

    assert [r.share for r in reaches(made)] == [0.25] * 4
    assert [r.weights for r in reaches(made)] == [None] * 4


def test_a_bounded_overflow_shows_its_caps(made: Config) -> None:
    marked = [r for r in reaches(made) if r.overflow]

    assert [(r.name, str(r.upstream)) for r in marked] == [
        ("jobs", "gpu-1:8000"),
        ("work", "gpu-1:8000"),
        ("task/title", "gpu-1:8000"),
    ]
    assert {r.bound for r in marked} == {Bound(rpm=4, max_parallel_requests=1)}


def test_an_alias_has_its_groups_fallbacks_unless_it_has_a_list_of_its_own(made: Config) -> None:
    own = {r.group for r in rows(made, "work")}
    inherited = {r.group for r in rows(replace(made, fallbacks={"jobs": ("cloud",)}), "work")}

    assert own == {"jobs"}
    assert inherited == {"jobs", "cloud"}


def test_names_are_groups_aliases_and_tasks_in_the_order_of_the_file(made: Config) -> None:
    assert list(dict.fromkeys((r.name, r.kind, r.tier) for r in reaches(made))) == [
        ("chat", "group", "interactive"),
        ("jobs", "group", "background"),
        ("cloud", "group", "burst"),
        ("work", "alias", "background"),
        ("task/title", "task", "background"),
    ]


def test_a_file_with_too_many_ways_to_walk_gets_all_that_its_entries_connect() -> None:
    groups = [f"g{n}" for n in range(40)]
    later = {g: tuple(groups[n + 1 : n + 8]) for n, g in enumerate(groups)}
    made = config(
        *(member(g, f"gpu-{g}:8000") for g in groups),
        tiers=dict.fromkeys(groups, "background"),
        fallbacks=later,
        context_window_fallbacks={g: to[1:3] for g, to in later.items()},
    )

    assert {r.group for r in reaches(made) if r.name == "g0"} == set(groups)
