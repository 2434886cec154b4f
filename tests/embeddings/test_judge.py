"""The gate's judgement over made-up answers: what is wrong has its own words."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from serving.embeddings.gate.ask import Answer
from serving.embeddings.gate.judge import Said, judge

NAMES = ["a", "b", "c", "d"]
RIGHT = np.eye(4, 8, dtype=np.float32)


def answer(vectors: NDArray[np.float32], indexes: tuple[int, ...] | None = None) -> Answer:
    given = tuple(range(len(vectors))) if indexes is None else indexes
    return Answer(vectors=vectors, indexes=given, prompt_tokens=None)


def said(batch: NDArray[np.float32], backwards: NDArray[np.float32] | None = None) -> Said:
    """A server whose single answers are right; backwards is what the batch is, unless given."""
    return Said(
        batch=answer(batch),
        backwards=answer(batch[::-1] if backwards is None else backwards),
        singles=tuple(answer(RIGHT[[row]]) for row in range(len(RIGHT))),
    )


def problems(candidate: Said) -> list[str]:
    return list(judge(NAMES, said(RIGHT), candidate, least=0.99).problems)


def test_a_server_that_answers_as_the_reference_does_passes() -> None:
    assert judge(NAMES, said(RIGHT), said(RIGHT), least=0.99).passed


@pytest.mark.parametrize(
    ("order", "count"), [((3, 2, 1, 0), 8), ((1, 0, 2, 3), 4), ((1, 2, 3, 0), 8)]
)
def test_right_vectors_at_other_places_are_a_wrong_order_and_not_padding(
    order: tuple[int, ...], count: int
) -> None:
    found = problems(said(RIGHT[list(order)], RIGHT[::-1][list(order)]))

    assert any(f"wrong order: in a batch, {count} vectors of 8" in each for each in found)
    assert not any("padding" in each for each in found)


def test_vectors_that_are_nobodys_are_padding_and_not_a_wrong_order() -> None:
    found = problems(said((RIGHT + 0.2).astype(np.float32)))

    assert any("4 of 4 texts get another vector in a batch than alone: padding" in x for x in found)
    assert not any("order" in each for each in found)


def test_with_both_wrong_padding_is_named() -> None:
    mixed = RIGHT[[1, 0, 2, 3]].copy()
    mixed[3] += 0.3

    assert any("padding" in each for each in problems(said(mixed)))


def test_indexes_out_of_order_are_named_as_such() -> None:
    candidate = replace(said(RIGHT), batch=answer(RIGHT, (3, 2, 1, 0)))

    assert problems(candidate) == ["the answer's indexes are not 0, 1, 2, ... in order"]


def test_not_a_number_fails() -> None:
    assert problems(said(np.full_like(RIGHT, np.nan)))
