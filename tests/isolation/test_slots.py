"""Isolation on a slot: upstreams are recipes, `active` is any of them, and who may swap."""

from __future__ import annotations

from typing import Any

from gateway.config.config import Config
from gateway.config.isolation import overflow_sums, reaches
from tests.isolation.build import codes, config, member, problems

CAPS: dict[str, Any] = {"rpm": 4, "max_parallel_requests": 1}


def beside(*jobs: str, chat: str = "gpu0/r1", **settings: Any) -> Config:
    """People on one recipe; background on others, with caps unless `settings` say else."""
    return config(
        member("chat", chat),
        *(member("jobs", at, n, **{"swap": False, **settings}) for n, at in enumerate(jobs)),
        tiers={"chat": "interactive", "jobs": "background"},
    )


def test_two_recipes_of_one_slot_are_two_upstreams() -> None:
    assert codes(beside("gpu0/r2")) == []


def test_one_recipe_under_two_names_is_one_upstream() -> None:
    assert codes(beside("gpu0/r1")) == ["unbounded-overflow", "shared-upstream"]
    assert codes(beside("gpu0/r1", **CAPS)) == ["shared-upstream"]


def test_one_recipe_on_two_slots_is_two_upstreams() -> None:
    assert codes(beside("gpu1/r1")) == []


def test_background_on_what_is_loaded_may_be_on_peoples_recipe() -> None:
    assert "unbounded-overflow" in codes(beside("gpu0/active", swap=None))
    assert "unbounded-overflow" not in codes(beside("gpu0/active", swap=None, **CAPS))
    assert codes(beside("gpu1/active", swap=None)) == []


def test_where_people_use_what_is_loaded_every_recipe_of_the_slot_is_theirs() -> None:
    assert "unbounded-overflow" in codes(beside("gpu0/r2", chat="gpu0/active"))
    assert codes(beside("gpu1/r2", chat="gpu0/active")) == []


def test_overflow_on_what_is_loaded_is_counted_on_each_recipe_of_people() -> None:
    made = config(
        member("chat", "gpu0/r1"),
        member("code", "gpu0/r2"),
        member("jobs", "gpu0/active", **CAPS),
        member("more", "gpu0/r1", swap=False, **CAPS),
        tiers={
            "chat": "interactive",
            "code": "interactive",
            "jobs": "background",
            "more": "background",
        },
        overflow_max_parallel=1,
    )

    sums = overflow_sums(made, reaches(made))

    shown = {str(upstream): [d.group for d in found] for upstream, found in sums.items()}
    assert shown == {"gpu0/r1": ["jobs", "more"], "gpu0/r2": ["jobs"]}
    assert [p.place.line for p in problems(made) if p.code == "overflow-sum"] == [40]


def test_background_that_may_swap_peoples_recipe_away_is_an_error_at_its_deployment() -> None:
    found = [p for p in problems(beside("gpu0/r2", swap=True)) if p.severity == "error"]

    assert [(p.code, p.place.line) for p in found] == [("swap-interactive", 20)]
    assert "background 'jobs' may swap slot gpu0 to r2" in found[0].message
    assert "away from interactive 'chat' (gpu0/r1)" in found[0].message


def test_background_may_have_the_recipe_loaded_that_people_use_themselves() -> None:
    assert "swap-interactive" not in codes(beside("gpu0/r1", swap=True, **CAPS))


def test_what_people_have_loaded_by_hand_may_not_be_swapped_away_either() -> None:
    assert "swap-interactive" in codes(beside("gpu0/r2", chat="gpu0/active", swap=True, **CAPS))


def test_an_auxiliary_name_swaps_unless_told_not_to_and_a_task_does_not() -> None:
    def made(**settings: Any) -> Config:
        return config(
            member("chat", "gpu0/r1"),
            member("aux", "gpu0/r2", **settings),
            tiers={"chat": "interactive", "aux": "auxiliary"},
            pins={"title": "aux"},
        )

    by_default = [p for p in problems(made()) if p.code == "swap-interactive"]

    assert "auxiliary 'aux' may swap" in by_default[0].message
    assert {r.name: r.swaps for r in reaches(made())} == {
        "chat": True,
        "aux": True,
        "task/title": False,
    }
    assert codes(made(swap=False)) == []


def test_background_that_falls_back_to_an_auxiliary_recipe_does_not_swap_by_default() -> None:
    made = config(
        member("chat", "gpu-1:8000"),
        member("aux", "gpu0/r2"),
        member("jobs", "gpu-2:8000"),
        tiers={"chat": "interactive", "aux": "auxiliary", "jobs": "background"},
        fallbacks={"jobs": ("aux",)},
    )

    assert [r.swaps for r in reaches(made) if r.name == "jobs"] == [False, False]
