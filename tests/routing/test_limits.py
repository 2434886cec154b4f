"""Permits: no cap is ever exceeded, and each permit comes back exactly once."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.routing.limits import Limits, Permit
from gateway.routing.window import MOST_KEPT, WINDOW_S
from tests.routing.made import deployment

# What callers do: let time pass, ask for a permit with so many tokens, give one back (used tokens).
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("wait"), st.floats(0.0, 45.0)),
        st.tuples(st.just("take"), st.integers(1, 600)),
        st.tuples(st.just("give"), st.integers(0, 600)),
    ),
    max_size=120,
)
CAPS = st.tuples(
    st.none() | st.integers(1, 5), st.none() | st.integers(1, 6), st.none() | st.integers(100, 2000)
)


@given(CAPS, STEPS)
def test_no_cap_is_exceeded_in_any_minute(
    caps: tuple[int | None, int | None, int | None], steps: list[tuple[str, float]]
) -> None:
    parallel, rpm, tpm = caps
    d = deployment(max_parallel_requests=parallel, rpm=rpm, tpm=tpm)
    limits, now = Limits(), 0.0
    held: list[tuple[Permit, float, int]] = []
    sent: list[float] = []
    charged: list[list[float]] = []  # [at, tokens]: reserved, then settled

    for step, value in steps:
        if step == "wait":
            now += value
        elif step == "take":
            tokens = int(value)
            before = sum(t for at, t in charged if at > now - WINDOW_S)
            permit = limits.take(d, now, tokens)
            if permit is None:
                continue
            held.append((permit, now, len(charged)))
            sent.append(now)
            charged.append([now, tokens])
            assert parallel is None or len(held) <= parallel
            assert rpm is None or sum(at > now - WINDOW_S for at in sent) <= rpm
            # A request above the whole budget runs alone; all others fit.
            assert tpm is None or before + tokens <= tpm or before == 0
        elif held:
            permit, _, index = held.pop(0)
            assert permit.give_back(int(value))
            assert not permit.give_back(int(value)), "a permit is given back once"
            charged[index][1] = int(value)

    assert limits.use("d", now).in_flight == len(held)


@given(st.integers(1, 5), st.lists(st.floats(0.0, 30.0), min_size=1, max_size=40))
def test_a_window_opens_when_it_says(rpm: int, waits: list[float]) -> None:
    d, limits, now = deployment(rpm=rpm), Limits(), 0.0

    for wait in waits:
        now += wait
        opens = limits.opens_in(d, now, 1)
        if opens is None:
            assert limits.take(d, now, 1) is not None
            continue
        assert 0.0 < opens <= WINDOW_S + 1e-6
        assert limits.take(d, now, 1) is None
        assert limits.take(d, now + opens + 1e-6, 1) is not None
        now += opens + 1e-6


def test_a_full_deployment_opens_by_a_permit_alone() -> None:
    d, limits = deployment(max_parallel_requests=1), Limits()
    permit = limits.take(d, 0.0, 1)

    assert limits.opens_in(d, 0.0, 1) == math.inf

    assert permit is not None
    permit.give_back()
    assert limits.opens_in(d, 0.0, 1) is None


def test_the_engines_usage_settles_a_reservation() -> None:
    """CAP-09: a reservation, then what was used."""
    d, limits = deployment(tpm=1000), Limits()
    permit = limits.take(d, 0.0, 900)
    assert permit is not None
    assert limits.take(d, 1.0, 200) is None

    permit.give_back(300)

    assert limits.take(d, 1.0, 200) is not None
    assert limits.use("d", 1.0).tokens == 500


def test_a_reservation_that_left_the_window_settles_nothing() -> None:
    d, limits = deployment(tpm=1000), Limits()
    permit = limits.take(d, 0.0, 900)
    assert permit is not None
    assert limits.use("d", 61.0).tokens == 0

    permit.give_back(100)

    assert limits.use("d", 61.0).tokens == 0


def test_counts_live_by_id_and_outlive_new_settings() -> None:
    limits = Limits()
    limits.take(deployment(rpm=5), 0.0, 1)
    limits.take(deployment(rpm=5), 1.0, 1)

    assert limits.take(deployment(rpm=2), 2.0, 1) is None
    assert limits.opens_in(deployment(rpm=2), 2.0, 1) == pytest.approx(58.0)


def test_a_cap_that_a_reload_adds_counts_what_was_sent_before() -> None:
    limits = Limits()
    for at in (0.0, 1.0):
        limits.take(deployment(), at, 400)

    assert limits.take(deployment(rpm=2), 2.0, 1) is None
    assert limits.take(deployment(tpm=1000), 2.0, 400) is None
    assert limits.take(deployment(tpm=1000), 60.5, 400) is not None


def test_what_no_cap_reads_is_kept_within_bounds() -> None:
    limits = Limits()
    for number in range(MOST_KEPT + 50):
        limits.take(deployment(), number / 1e6, 2)

    use = limits.use("d", 1.0)
    assert (len(use.calls), len(use.reserved)) == (MOST_KEPT, MOST_KEPT)
    assert use.tokens == 2 * MOST_KEPT
