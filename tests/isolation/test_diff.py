"""What an edit would change, told row by row."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gateway.config.config import Activity, ClientKey, Config, LedgerFiles, Slot, TierRule
from gateway.config.diff import Change, compare, restart_needed
from tests.isolation.build import RULES, config, member


@pytest.fixture
def old() -> Config:
    """People on gpu-1; background on gpu-2 with a bounded overflow; burst behind both."""
    return config(
        member("chat", "gpu-1:8000", api_key="sk-old-secret"),
        member("jobs", "gpu-2:8000", weight=10.0),
        member("jobs", "gpu-1:8000", 1, weight=1.0, rpm=4, max_parallel_requests=1),
        member("cloud", "cloud:443"),
        tiers={"chat": "interactive", "jobs": "background", "cloud": "burst"},
        aliases={"work": "jobs"},
        pins={"title": "jobs"},
        fallbacks={"chat": ("cloud",)},
        client_keys=(ClientKey(name="web", key="sk-web-secret", tiers=frozenset({"interactive"})),),
        master_key="sk-master-secret",
    )


def told(old: Config, new: Config) -> list[tuple[str, str, str, str, str]]:
    """The rows as plain tuples."""
    return [(c.section, c.subject, c.what, c.before, c.after) for c in compare(old, new)]


def test_the_same_file_has_no_rows(old: Config) -> None:
    assert compare(old, replace(old)) == ()


def test_a_member_that_goes_is_a_deployment_less_and_reach_lost_for_every_name(
    old: Config,
) -> None:
    new = replace(old, deployments=(old.deployments[0], old.deployments[1], old.deployments[3]))

    rows = told(old, new)

    overflow = "share 1/11, bounded overflow: rpm 4, 1 parallel"
    for name in ("jobs", "work", "task/title"):
        assert ("reach", name, "reaches gpu-1:8000", overflow, "-") in rows
        assert ("reach", name, "reaches gpu-2:8000", "share 10/11", "direct") in rows
    gone = old.deployments[2].id
    assert ("deployments", gone, "deployment", "in group jobs", "-") in rows


def test_a_new_fallback_shows_the_upstream_that_is_gained(old: Config) -> None:
    new = replace(old, fallbacks={**old.fallbacks, "jobs": ("cloud",)})

    rows = told(old, new)

    assert ("fallbacks", "jobs", "falls back to", "-", "cloud") in rows
    assert ("reach", "task/title", "reaches cloud:443", "-", "fallback 1 (cloud)") in rows


def test_a_looser_cap_shows_as_a_setting_and_in_the_bound(old: Config) -> None:
    looser = replace(old.deployments[2], rpm=40)
    new = replace(old, deployments=(*old.deployments[:2], looser, old.deployments[3]))

    rows = told(old, new)

    assert ("deployments", looser.id, "rpm", "4", "40") in rows
    assert any(row[0] == "reach" and "rpm 40, 1 parallel" in row[4] for row in rows)


def test_a_pin_that_moves_is_a_name_that_changes(old: Config) -> None:
    made = config(
        *old.deployments, tiers=old.tiers, aliases={"work": "jobs"}, pins={"title": "chat"}
    )

    assert ("names", "task/title", "task pinned to", "jobs", "chat") in told(old, made)


def test_a_group_that_changes_its_tier_or_appears_is_named(old: Config) -> None:
    new = replace(
        old,
        tiers={**old.tiers, "jobs": "auxiliary", "aux": "auxiliary"},
        deployments=(*old.deployments, member("aux", "gpu-3:8000")),
    )

    rows = told(old, new)

    assert ("names", "jobs", "group in tier", "background", "auxiliary") in rows
    assert ("names", "aux", "group in tier", "-", "auxiliary") in rows


def test_no_secret_is_in_any_row_and_yet_a_changed_one_is_told(old: Config) -> None:
    new = replace(
        old,
        deployments=(
            replace(
                old.deployments[0], api_key="sk-new-secret", fixed={"token": "sk-body", "top_k": 4}
            ),
            *old.deployments[1:],
        ),
        client_keys=(
            ClientKey(
                name="web", key="sk-other-secret", tiers=frozenset({"auxiliary", "interactive"})
            ),
        ),
        master_key="sk-third-secret",
    )

    changes = compare(old, new)

    assert not any("sk-" in text for c in changes for text in (c.before, c.after, c.what))
    rows = told(old, new)
    assert ("keys", "web", "may use", "interactive", "auxiliary, interactive") in rows
    assert ("keys", "web", "value", "(old)", "(new)") in rows
    assert ("keys", "master key", "value", "(old)", "(new)") in rows
    assert ("deployments", old.deployments[0].id, "api_key", "(old)", "(new)") in rows
    assert (
        "deployments",
        old.deployments[0].id,
        "fixed",
        "nothing",
        "token: (text), top_k: 4",
    ) in rows


def test_text_that_is_hidden_still_shows_that_it_changed(old: Config) -> None:
    first = replace(old.deployments[0], fixed={"token": "a"})
    second = replace(old.deployments[0], fixed={"token": "b"})

    rows = told(replace(old, deployments=(first,)), replace(old, deployments=(second,)))

    assert ("deployments", first.id, "fixed", "(old)", "(new)") in rows


def test_what_needs_a_restart_says_so(old: Config) -> None:
    new = replace(old, port=9001, hold_s=3.0, activity=Activity(path="run/other.jsonl"))

    found = {(c.what, c.restart) for c in compare(old, new)}

    assert found == {
        ("gateway_settings.listen (port)", True),
        ("gateway_settings.hold_s", False),
        ("gateway_settings.activity.path", True),
    }
    assert len(restart_needed(old, new)) == 2


def test_how_a_tier_waits_is_told(old: Config) -> None:
    rule = TierRule(max_wait_s=30.0, max_waiting=64, on_saturation="fallback")
    new = replace(old, tier_rules={**RULES, "interactive": rule})

    assert told(old, new) == [
        ("tiers", "interactive", "max_wait_s", "10", "30"),
        ("tiers", "interactive", "on_saturation", "reject", "fallback"),
    ]


def test_every_setting_of_a_config_is_compared(old: Config) -> None:
    """A field that is added to Config must be told by some row, or listed here with its reason."""
    not_compared = {"path", "revision"}  # where the text was, not what it says
    names = Config.__dataclass_fields__.keys() - not_compared

    quiet = [name for name in names if not compare(old, _with_another(old, name))]

    assert quiet == []


def _with_another(made: Config, name: str) -> Config:
    value: Any = getattr(made, name)
    other: Any
    match value:
        case bool():
            other = not value
        case int() | float():
            other = value + 1
        case str():
            other = value + "x"
        case None:
            other = 7
        case tuple():
            other = () if value else ("chat",)
        case Activity():
            other = replace(value, max_bytes=1)
        case LedgerFiles():
            other = replace(value, prices="elsewhere.json")
        case {} if name == "slots":
            other = {"gpu0": Slot(name="gpu0", url="http://127.0.0.1:8767")}
        case {"chat": "interactive"}:
            other = {**value, "chat": "auxiliary"}
        case {}:
            other = dict(list(value.items())[:-1]) if value else {"chat": ("cloud",)}
        case _:
            raise AssertionError(f"no other value known for {value!r}")
    return replace(made, **{name: other})


def test_rows_are_plain_values(old: Config) -> None:
    change = compare(old, replace(old, drain_s=5.0))[0]

    assert change == Change(
        section="settings",
        subject="gateway",
        what="gateway_settings.drain_s",
        before="30",
        after="5",
    )
