"""Each isolation rule: the smallest file that breaks it, and the nearest one that does not."""

from __future__ import annotations

from dataclasses import replace

from gateway.config.config import Config, Pin, Upstream
from gateway.config.isolation import check
from tests.isolation.build import codes, config, member, place, problems


def chat_and_background(**settings: object) -> Config:
    """The reference pattern: people on gpu-1, background on gpu-2 with a capped member on gpu-1."""
    caps: dict[str, object] = {"rpm": 4, "max_parallel_requests": 1, **settings}
    return config(
        member("chat", "gpu-1:8000"),
        member("jobs", "gpu-2:8000", weight=10.0),
        member("jobs", "gpu-1:8000", 1, weight=1.0, **caps),
        tiers={"chat": "interactive", "jobs": "background"},
    )


def test_a_bounded_overflow_is_no_error_and_both_names_are_told_once() -> None:
    found = problems(chat_and_background())

    assert [p.code for p in found] == ["shared-upstream"]
    assert "interactive 'chat' and background 'jobs' share upstream gpu-1:8000" in found[0].message
    assert found[0].severity == "warning"


def test_strict_isolation_has_nothing_to_say() -> None:
    made = config(
        member("chat", "gpu-1:8000"),
        member("jobs", "gpu-2:8000"),
        tiers={"chat": "interactive", "jobs": "background"},
        pins={"title": "jobs"},
    )

    assert codes(made) == []


def test_an_overflow_without_rpm_is_an_error_at_the_deployment_that_names_what_is_missing() -> None:
    found = [p for p in problems(chat_and_background(rpm=None)) if p.severity == "error"]

    assert [p.code for p in found] == ["unbounded-overflow"]
    assert found[0].place.line == 30
    assert "background 'jobs' reaches interactive upstream gpu-1:8000" in found[0].message
    assert "set rpm on this deployment" in found[0].message


def test_an_overflow_without_max_parallel_requests_is_an_error() -> None:
    assert "unbounded-overflow" in codes(chat_and_background(max_parallel_requests=None))


def test_all_names_that_use_an_unbounded_way_are_in_one_problem() -> None:
    made = config(
        member("chat", "gpu-1:8000"),
        member("jobs", "gpu-1:8000"),
        tiers={"chat": "interactive", "jobs": "auxiliary"},
        aliases={"work": "jobs"},
        pins={"title": "jobs"},
    )

    found = [p for p in problems(made) if p.code == "unbounded-overflow"]

    assert len(found) == 1
    assert "auxiliary 'jobs', auxiliary 'work' and task 'task/title' reach" in found[0].message


def test_two_names_for_one_server_are_one_upstream() -> None:
    made = config(
        member("chat", "gpu-1:8000"),
        member("jobs", "gpu-1:8000", served_name="other"),
        tiers={"chat": "interactive", "jobs": "background"},
    )

    assert "unbounded-overflow" in codes(made)


def test_a_fallback_to_an_interactive_group_is_an_error_at_the_fallback() -> None:
    made = config(
        member("chat", "gpu-1:8000", rpm=4, max_parallel_requests=1),
        member("jobs", "gpu-2:8000"),
        tiers={"chat": "interactive", "jobs": "background"},
        fallbacks={"jobs": ("chat",)},
    )

    found = problems(made)

    assert [(p.code, p.place.line) for p in found] == [("overflow-not-own", 101)]
    assert "by fallback" in found[0].message


def test_a_way_in_over_two_fallbacks_and_a_default_is_found() -> None:
    made = config(
        member("chat", "gpu-1:8000"),
        member("jobs", "gpu-2:8000"),
        member("cloud", "cloud:443"),
        tiers={"chat": "interactive", "jobs": "background", "cloud": "burst"},
        fallbacks={"jobs": ("cloud",), "chat": ()},
        default_fallbacks=("chat",),
    )

    assert [(p.code, p.place.line) for p in problems(made)] == [("overflow-not-own", 102)]


def test_a_hop_limit_that_cuts_the_way_in_ends_the_error() -> None:
    made = config(
        member("chat", "gpu-1:8000"),
        member("jobs", "gpu-2:8000"),
        member("aux", "gpu-3:8000"),
        tiers={"chat": "interactive", "jobs": "background", "aux": "background"},
        fallbacks={"jobs": ("aux",), "aux": ("chat",)},
        max_fallbacks=1,
    )
    assert "overflow-not-own" in codes(made), "aux itself still falls back to chat"

    assert codes(replace(made, max_fallbacks=0)) == []


def test_a_fallback_for_long_prompts_only_is_a_way_in_too() -> None:
    made = config(
        member("chat", "gpu-1:8000"),
        member("jobs", "gpu-2:8000"),
        tiers={"chat": "interactive", "jobs": "background"},
        context_window_fallbacks={"jobs": ("chat",)},
    )

    assert [(p.code, p.place.line) for p in problems(made)] == [("overflow-not-own", 103)]


def test_a_capped_deployment_that_interactive_names_reach_is_not_the_overflows_own() -> None:
    made = replace(chat_and_background(), fallbacks={"chat": ("jobs",)})

    found = [p for p in problems(made) if p.severity == "error"]

    assert [p.code for p in found] == ["overflow-not-own"]


def test_a_task_pinned_to_an_interactive_group_is_an_error_told_once() -> None:
    made = config(
        member("chat", "gpu-1:8000"), tiers={"chat": "interactive"}, pins={"title": "chat"}
    )

    found = problems(made)

    assert [(p.code, p.place.line) for p in found] == [("task-on-interactive", 105)]


def test_a_task_whose_pin_has_fallbacks_off_does_not_follow_its_groups_fallbacks() -> None:
    made = config(
        member("chat", "gpu-1:8000"),
        member("quiet", "gpu-2:8000"),
        tiers={"chat": "interactive", "quiet": "interactive"},
        fallbacks={"quiet": ("chat",)},
        pins={"title": Pin(task="title", group="quiet", fallbacks=False)},
    )

    assert codes(made) == ["task-on-interactive"], "and nothing about a fallback to chat"


def test_overflows_to_one_upstream_are_summed_over_groups() -> None:
    two = {"rpm": 4, "max_parallel_requests": 2}
    made = config(
        member("chat", "gpu-1:8000"),
        member("jobs", "gpu-1:8000", **two),
        member("aux", "gpu-1:8000", **{**two, "max_parallel_requests": 1}),
        tiers={"chat": "interactive", "jobs": "background", "aux": "auxiliary"},
    )

    found = [p for p in problems(made) if p.severity == "error"]

    assert [(p.code, p.place.line) for p in found] == [("overflow-sum", 30)]
    assert "'jobs' and 'aux'" in found[0].message
    assert "adds up to 3 parallel requests, above 2" in found[0].message
    assert "overflow-sum" not in codes(replace(made, overflow_max_parallel=3))


def test_a_deployment_that_many_names_share_counts_once_in_the_sum() -> None:
    made = replace(
        chat_and_background(max_parallel_requests=2),
        pins={t: Pin(task=t, group="jobs") for t in ("a", "b", "c")},
    )

    assert codes(made) == ["shared-upstream"]


def test_a_group_in_no_tier_is_named() -> None:
    made = config(
        member("chat", "gpu-1:8000"), member("lost", "gpu-2:8000"), tiers={"chat": "interactive"}
    )

    found = problems(made)

    assert [(p.code, p.place.line) for p in found] == [("no-tier", 20)]
    assert "'lost'" in found[0].message


def test_burst_is_no_alias_target_and_no_pin() -> None:
    made = config(
        member("chat", "gpu-1:8000"),
        member("cloud", "cloud:443"),
        tiers={"chat": "interactive", "cloud": "burst"},
        fallbacks={"chat": ("cloud",)},
    )
    assert codes(made) == []

    aliased = config(*made.deployments, tiers=made.tiers, aliases={"big": "cloud"})
    pinned = config(*made.deployments, tiers=made.tiers, pins={"title": "cloud"})

    assert codes(aliased) == ["burst-reachable"]
    assert codes(pinned) == ["burst-reachable"]


def test_the_burst_model_is_no_weighted_member_of_another_group() -> None:
    made = config(
        member("jobs", "gpu-2:8000", weight=10.0),
        member("jobs", "cloud:443", 1, weight=1.0, served_name="nemotron"),
        member("cloud", "cloud:443", served_name="nemotron"),
        tiers={"jobs": "background", "cloud": "burst"},
    )

    errors = [p for p in problems(made) if p.severity == "error"]

    assert [(p.code, p.place.line) for p in errors] == [("burst-reachable", 20)]


def test_a_stand_in_for_burst_on_this_machine_is_only_told_as_shared() -> None:
    made = config(
        member("aux", "127.0.0.1:8000", served_name="small"),
        member("burst", "127.0.0.1:8000", served_name="small"),
        tiers={"aux": "auxiliary", "burst": "burst"},
    )

    assert codes(made) == ["shared-upstream"]


def test_a_cycle_of_fallbacks_is_told_once_with_its_way_round() -> None:
    made = config(
        *(member(g, f"gpu-{g}:8000") for g in "abc"),
        tiers=dict.fromkeys("abc", "background"),
        fallbacks={"a": ("b",), "b": ("c",), "c": ("a",)},
        default_fallbacks=("a",),
    )

    found = problems(made)

    assert [(p.code, p.place.line) for p in found] == [("fallback-cycle", 101)]
    assert "a -> b -> c -> a" in found[0].message


def test_a_group_that_falls_back_to_itself_is_a_cycle_also_by_an_alias() -> None:
    made = config(
        member("a", "gpu-1:8000"),
        tiers={"a": "background"},
        aliases={"quick": "a"},
        fallbacks={"quick": ("a",)},
    )

    assert codes(made) == ["fallback-cycle"]
    assert "fallback-cycle" in codes(replace(made, aliases={}, fallbacks={"a": ("a",)}))


def test_two_cycles_are_two_problems() -> None:
    made = config(
        *(member(g, f"gpu-{g}:8000") for g in "abc"),
        tiers=dict.fromkeys("abc", "background"),
        fallbacks={"a": ("b",), "b": ("a", "c"), "c": ("b",)},
    )

    assert codes(made) == ["fallback-cycle", "fallback-cycle"]


def test_default_fallbacks_that_name_each_other_are_no_cycle() -> None:
    made = config(
        *(member(g, f"gpu-{g}:8000") for g in "abc"),
        tiers=dict.fromkeys("abc", "background"),
        default_fallbacks=("b", "c"),
    )

    assert codes(made) == []


def test_a_fallback_to_a_smaller_window_is_a_warning() -> None:
    made = config(
        member("large", "gpu-1:8000", max_input_tokens=131072),
        member("small", "gpu-2:8000", max_input_tokens=8192),
        tiers={"large": "background", "small": "background"},
        fallbacks={"large": ("small",)},
    )

    found = problems(made)

    assert [(p.code, p.severity) for p in found] == [("smaller-window", "warning")]
    assert "131072" in found[0].message
    assert "8192" in found[0].message
    assert codes(replace(made, fallbacks={"small": ("large",)})) == []


def test_a_fallback_for_long_prompts_needs_a_larger_window() -> None:
    made = config(
        member("a", "gpu-1:8000", max_input_tokens=8192),
        member("b", "gpu-2:8000", max_input_tokens=8192),
        tiers={"a": "background", "b": "background"},
        context_window_fallbacks={"a": ("b",)},
    )

    assert codes(made) == ["smaller-window"]


def embeddings(**settings: str) -> Config:
    """A query lane and an ingest lane of one model, each on its own upstream."""
    return config(
        member("emb-query", "cpu:8000", mode="embedding", lane="query", served_name="qwen-emb"),
        member(
            "emb-ingest",
            settings.get("at", "gpu-2:8001"),
            mode="embedding",
            lane="ingest",
            served_name=settings.get("model", "qwen-emb"),
        ),
        tiers={"emb-query": "auxiliary", "emb-ingest": "background"},
    )


def test_two_embedding_lanes_apart_are_well() -> None:
    assert codes(embeddings()) == []


def test_the_lanes_share_no_upstream() -> None:
    assert "lanes-share-upstream" in codes(embeddings(at="cpu:8000"))


def test_one_lane_does_not_fall_back_to_the_other() -> None:
    made = replace(embeddings(), fallbacks={"emb-query": ("emb-ingest",)})

    assert codes(made) == ["lanes-fallback"]


def test_an_embedding_group_does_not_fall_back_to_another_model_also_not_by_default() -> None:
    made = embeddings(model="other-emb")

    written = replace(made, fallbacks={"emb-query": ("emb-ingest",)})
    by_default = replace(made, default_fallbacks=("emb-ingest",))

    assert "embedding-fallback" in codes(written)
    assert "embedding-fallback" in codes(by_default)


def test_one_group_holds_one_embedding_model_and_one_lane() -> None:
    made = config(
        member("emb", "cpu:8000", mode="embedding", lane="query", served_name="a"),
        member("emb", "gpu-2:8000", mode="embedding", lane="ingest", served_name="b"),
        tiers={"emb": "auxiliary"},
    )

    assert sorted(codes(made)) == ["embedding-mixed", "lanes-mixed"]


def test_a_fallback_from_embeddings_to_chat_serves_nothing_and_is_a_warning() -> None:
    made = config(
        member("emb", "cpu:8000", mode="embedding"),
        member("chat", "gpu-1:8000"),
        tiers={"emb": "auxiliary", "chat": "auxiliary"},
        fallbacks={"emb": ("chat",)},
    )

    assert codes(made) == ["fallback-mode"]
    assert codes(replace(made, fallbacks={}, default_fallbacks=("chat",))) == []


def test_a_fallback_in_litellm_settings_is_placed_there() -> None:
    made = config(member("a", "gpu-1:8000"), tiers={"a": "background"}, fallbacks={"a": ("a",)})
    asked: list[tuple[str | int, ...]] = []

    def in_litellm_settings(path: tuple[str | int, ...]):  # type: ignore[no-untyped-def]
        asked.append(path)
        known = path[:2] if path[:1] == ("litellm_settings",) else ()
        return place(known)

    check(made, in_litellm_settings)

    assert asked[-1] == ("litellm_settings", "fallbacks", 0, "a", 0)


def test_a_provider_without_an_address_is_an_upstream_of_its_own() -> None:
    made = config(
        replace(member("chat", "x:1"), upstream=Upstream("nebius", 0)),
        member("jobs", "gpu-2:8000"),
        tiers={"chat": "interactive", "jobs": "background"},
    )

    assert codes(made) == []
