"""Health: who rests, how long, and how a deployment comes back."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gateway.routing.health import FAILURE_WINDOW_S, Health
from tests.routing.made import deployment

D = deployment(allowed_fails=1, cooldown_s=10.0)


def rested(at: float = 0.0) -> Health:
    health = Health()
    health.failed(D, at)
    health.failed(D, at)
    return health


def test_more_failures_than_allowed_rest_it_for_the_cooldown() -> None:
    health = Health()

    assert not health.failed(D, 0.0)
    assert health.rests("d", 0.0) is None
    assert health.failed(D, 1.0)
    assert health.rests("d", 1.0) == 10.0
    assert health.rests("d", 11.0) is None


def test_failures_of_an_earlier_minute_do_not_count() -> None:
    health = Health()
    health.failed(D, 0.0)

    assert not health.failed(D, FAILURE_WINDOW_S)


def test_a_success_between_failures_does_not_hide_them() -> None:
    health = Health()
    health.failed(D, 0.0)
    health.succeeded("d", trial=False)

    assert health.failed(D, 1.0)


def test_after_the_rest_one_trial_at_a_time() -> None:
    """CDN-04: a burst after the end does not send all at once to a still broken engine."""
    health = rested()

    assert health.begin("d", 10.0)
    assert health.rests("d", 10.0) == 0.0
    health.left("d", trial=True)
    assert health.rests("d", 10.0) is None
    assert health.begin("d", 10.0)
    health.failed(D, 12.0)
    assert health.rests("d", 12.0) == 10.0


def test_a_trial_that_succeeds_makes_it_well_also_after_a_longer_rest_began() -> None:
    """F15: also if it finishes after the rest has run out."""
    health = rested()
    health.begin("d", 5.0)

    health.succeeded("d", trial=True)

    assert health.rests("d", 5.0) is None
    assert not health.begin("d", 5.0)


def test_a_second_failure_never_shortens_a_rest() -> None:
    health = Health()
    health.rest("d", 0.0, 60.0, by_own_word=True)

    health.failed(D, 1.0)
    health.failed(D, 2.0)

    assert health.rests("d", 2.0) == 58.0


def test_a_rest_by_the_engines_own_word_is_not_tried_early() -> None:
    health = Health()
    health.rest("d", 0.0, 30.0, by_own_word=True)

    assert not health.may_try_early("d")
    assert health.rests("d", 30.0) is None
    assert not health.begin("d", 30.0), "no trial: it said itself when it would be back"


EVENTS = st.lists(
    st.tuples(st.sampled_from(["begin", "ok", "fail", "left", "wait"]), st.floats(0.0, 20.0)),
    max_size=80,
)


@given(EVENTS)
def test_never_two_trials_at_once_and_every_rest_ends(events: list[tuple[str, float]]) -> None:
    health, now = Health(), 0.0
    trials: list[bool] = []  # attempts in flight, True for a trial

    for event, value in events:
        if event == "wait":
            now += value
        elif event == "begin" and health.rests("d", now) is None:
            trials.append(health.begin("d", now))
        elif trials and event in ("ok", "fail", "left"):
            trial = trials.pop()
            if event == "ok":
                health.succeeded("d", trial=trial)
            elif event == "fail":
                health.failed(D, now)
            health.left("d", trial=trial)
        assert sum(trials) <= 1
        rests = health.rests("d", now)
        assert rests is None or 0.0 <= rests <= D.cooldown_s + 1e-6
