"""What a model must do for the lane, and what the lane must know of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

Vectors = NDArray[np.float32]
Row = Sequence[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Traits:
    """One loaded model, as far as the lane and its clients care."""

    name: str  # what clients call it
    dimensions: int
    max_tokens: int  # of one text, terminal token included
    pass_tokens: int  # of one pass of the model, padding included
    pass_rows: int = 32
    waiting_tokens: int  # more is answered 429
    smallest_cut: int | None = None  # `dimensions` from here up; None: not trained to be cut
    dtype: str = "float32"  # what it computes in; the answer is float32 either way
    threads: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One part of a long row: the tokens it computed, and after the last one the vector, (1, n)."""

    tokens: int
    vectors: Vectors | None


class Encoder(Protocol):
    """A loaded model. Called from one thread at a time; every vector is normalised, float32."""

    @property
    def traits(self) -> Traits:
        """What it is."""

    @property
    def tokenizer(self) -> Tokenizer:
        """Its tokenizer, with the post-processor it came with."""

    def encode(self, rows: Sequence[Row]) -> Vectors:
        """One pass over all rows, padded to the longest; vectors in the order of the rows."""

    def steps(self, row: Row, step_tokens: int) -> Iterator[Step]:
        """A row longer than one pass, pass by pass, none above `step_tokens`."""


def normalised(vectors: NDArray[np.floating]) -> Vectors:
    """Each row divided by its length, computed in float32."""
    whole = np.asarray(vectors, dtype=np.float32)
    lengths = np.linalg.norm(whole, axis=1, keepdims=True)
    unit: Vectors = whole / np.maximum(lengths, np.float32(1e-12))
    return unit
