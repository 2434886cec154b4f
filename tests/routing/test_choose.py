"""Choose: weights hold statistically, order holds strictly, and who is left out has its reason."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.routing.choose import candidates
from gateway.routing.facts import Decision, RequestFacts
from gateway.routing.health import Health
from gateway.routing.table import Group
from tests.routing.made import deployment, group

CHAT = RequestFacts(dialect="chat")


def choose(
    members: Group,
    facts: RequestFacts = CHAT,
    health: Health | None = None,
    seed: int = 1,
    now: float = 0.0,
    *,
    early: bool = False,
) -> Decision:
    return candidates(
        members,
        facts,
        health=health or Health(),
        now=now,
        random=Random(seed),
        bridge=False,
        early=early,
    )


def ids(decision: Decision) -> list[str]:
    return [c.deployment.id for c in decision.candidates]


@pytest.mark.parametrize("weights", [(3.0, 1.0), (10.0, 1.0), (1.0, 1.0, 2.0), (0.5, 4.5)])
def test_the_first_choice_falls_by_weight(weights: tuple[float, ...]) -> None:
    """CAP-01: in every order of the file."""
    members = group(*(deployment(f"d{i}", weight=w) for i, w in enumerate(weights)))
    random, rounds = Random(7), 20_000

    first = Counter(
        candidates(members, CHAT, health=Health(), now=0.0, random=random, bridge=False)
        .candidates[0]
        .deployment.id
        for _ in range(rounds)
    )

    for i, weight in enumerate(weights):
        share = weight / sum(weights)
        spread = 4 * (share * (1 - share) / rounds) ** 0.5
        assert abs(first[f"d{i}"] / rounds - share) < spread


@given(
    st.lists(st.tuples(st.integers(1, 3), st.floats(0.1, 10.0)), min_size=1, max_size=6),
    st.integers(0, 10_000),
)
def test_everybody_is_a_candidate_once_and_lower_orders_come_first(
    rows: list[tuple[int, float]], seed: int
) -> None:
    members = group(*(deployment(f"d{i}", order=o, weight=w) for i, (o, w) in enumerate(rows)))

    found = choose(members, seed=seed)

    orders = [c.deployment.order for c in found.candidates]
    assert sorted(ids(found)) == sorted(d.id for d in members.members)
    assert orders == sorted(orders)
    assert found.left_out == ()


def test_who_is_left_out_has_its_reason() -> None:
    health = Health()
    resting = deployment("resting", allowed_fails=0, cooldown_s=9.0)
    health.failed(resting, 0.0)
    members = group(
        resting,
        deployment("small", max_input_tokens=100),
        deployment("cloud", relays=frozenset(), bridges=frozenset({"chat"})),
        deployment("mute", relays=frozenset({"embeddings"})),
        deployment("well"),
    )

    found = choose(members, RequestFacts(dialect="chat", prompt_tokens=101), health)

    assert ids(found) == ["well"]
    assert {d.id: reason for d, reason in found.left_out} == {
        "resting": "rests for 9.0 s",
        "small": "prompt above its window of 100",
        "cloud": "needs the bridge",
        "mute": "no chat",
    }
    assert not found.too_long


def test_too_long_for_all_is_said_apart() -> None:
    members = group(deployment("a", max_input_tokens=10), deployment("b", max_input_tokens=20))

    assert choose(members, RequestFacts(dialect="chat", prompt_tokens=21)).too_long
    assert not choose(members, RequestFacts(dialect="chat", prompt_tokens=15)).too_long


@given(st.text(min_size=1, max_size=20), st.integers(2, 6))
def test_a_caller_stays_on_one_member_while_it_is_well(caller: str, count: int) -> None:
    members = group(*(deployment(f"d{i}", allowed_fails=0) for i in range(count)))
    facts = RequestFacts(dialect="chat", callers={"g": caller})
    order = ids(choose(members, facts))

    assert all(ids(choose(members, facts, seed=seed)) == order for seed in range(5))

    health = Health()
    health.failed(members.members[int(order[0][1:])], 0.0)
    assert ids(choose(members, facts, health)) == order[1:]


def test_an_early_trial_is_of_the_one_whose_rest_ends_first() -> None:
    health = Health()
    a, b = (deployment(n, allowed_fails=0, cooldown_s=s) for n, s in (("a", 30.0), ("b", 10.0)))
    own = deployment("own")
    health.failed(a, 0.0)
    health.failed(b, 0.0)
    health.rest("own", 0.0, 1.0, by_own_word=True)
    members = group(a, b, own)

    assert ids(choose(members, health=health)) == []
    assert ids(choose(members, health=health, early=True)) == ["b"]

    health.begin("b", 0.5)
    assert ids(choose(members, health=health, now=0.5, early=True)) == ["a"]
