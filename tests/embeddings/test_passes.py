"""Which rows make up the next pass."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from serving.embeddings.passes import Pass, Turn, Waiting, choose


def row(
    arrived: int, tokens: int, request_tokens: int | None = None, *, begun: bool = False
) -> Waiting:
    whole = tokens if request_tokens is None else request_tokens
    return Waiting(arrived=arrived, tokens=tokens, request_tokens=whole, begun=begun)


def chosen(waiting: list[Waiting], turn: Turn) -> Pass:
    return choose(waiting, turn, pass_tokens=16, pass_rows=4)


def test_a_short_query_is_next_although_a_long_text_and_a_bulk_request_came_first() -> None:
    bulk = [row(1 + each, 8, request_tokens=800) for each in range(50)]

    found = chosen([row(0, 500), *bulk, row(90, 5)], "quick")

    assert found == Pass(rows=(90,))


def test_after_a_quick_turn_the_oldest_row_is_led_on() -> None:
    assert chosen([row(0, 500), row(90, 5)], "oldest") == Pass(rows=(0,), step=True)


def test_the_oldest_row_takes_those_of_its_length_along() -> None:
    bulk = [row(0, 5, 900), row(1, 15, 900), row(2, 5, 900), row(3, 4, 900)]

    assert chosen(bulk, "oldest") == Pass(rows=(0, 2, 3))


def test_padding_counts_in_a_pass() -> None:
    assert chosen([row(0, 2), row(1, 9), row(2, 9)], "quick") == Pass(rows=(0,))
    assert chosen([row(0, 8), row(1, 8), row(2, 8)], "quick") == Pass(rows=(0, 1))


def test_one_long_row_is_under_way_at_a_time() -> None:
    waiting = [row(0, 500), row(1, 400, begun=True)]

    assert chosen(waiting, "oldest") == Pass(rows=(1,), step=True)


def test_a_long_row_with_little_left_stays_by_itself() -> None:
    assert chosen([row(0, 3, begun=True), row(1, 3)], "oldest") == Pass(rows=(0,), step=True)


@given(
    st.lists(st.integers(1, 60), min_size=1, max_size=30),
    st.integers(1, 5),
)
def test_every_row_is_served_and_no_pass_is_longer_than_allowed(
    lengths: list[int], a_request: int
) -> None:
    left = dict(enumerate(lengths))
    begun: set[int] = set()
    turn: Turn = "quick"
    for _ in range(sum(lengths) + 1):
        if not left:
            break
        sizes: dict[int, int] = {}
        for arrived, tokens in left.items():
            sizes[arrived // a_request] = sizes.get(arrived // a_request, 0) + tokens
        waiting = [
            row(arrived, tokens, sizes[arrived // a_request], begun=arrived in begun)
            for arrived, tokens in left.items()
        ]
        found = chosen(waiting, turn)
        turn = "oldest" if turn == "quick" else "quick"
        if found.step:
            [arrived] = found.rows
            begun.add(arrived)
            left[arrived] -= min(16, left[arrived])
        else:
            assert len(found.rows) * max(left[each] for each in found.rows) <= 16
            for each in found.rows:
                left[each] = 0
        left = {arrived: tokens for arrived, tokens in left.items() if tokens}
    assert not left
