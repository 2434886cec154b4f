"""What both servers said -> a verdict. Pure: no I/O."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from serving.embeddings.encoder import Vectors, normalised
from serving.embeddings.gate.ask import Answer

NORM_WITHIN = 1e-3
ITSELF_AT_LEAST = 0.999  # one text alone and in company: sums in another order, nothing more


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """What one server answered to the set: at once, backwards, and one by one."""

    batch: Answer
    backwards: Answer
    singles: tuple[Answer, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One text: the candidate against the reference, and against itself."""

    name: str
    batch: float  # cosine, both asked for all texts at once
    single: float  # cosine, both asked for this text alone
    itself: float  # cosine, the candidate's batch against its own single
    norm: float  # of the candidate's vector in the batch


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The table and what is wrong; without a problem the candidate passes."""

    lines: tuple[Line, ...]
    dimensions: tuple[int, int]  # reference, candidate
    prompt_tokens: tuple[int | None, int | None]
    least: float
    problems: tuple[str, ...]

    @property
    def passed(self) -> bool:
        """True if the candidate may take the reference's place."""
        return not self.problems


def judge(names: Sequence[str], reference: Said, candidate: Said, *, least: float) -> Verdict:
    """Hold the candidate against the reference. Each problem says what to look at."""
    sizes = (reference.batch.vectors.shape[1], candidate.batch.vectors.shape[1])
    lines: tuple[Line, ...] = ()
    if sizes[0] == sizes[1]:
        lines = _lines(names, reference, candidate)
        problems = [*_cosines(lines, least), *_norms(lines), *_places(candidate, lines)]
    else:
        problems = [f"dimensions differ: {sizes[0]} and {sizes[1]}: another model, or cut"]
    tokens = (reference.batch.prompt_tokens, candidate.batch.prompt_tokens)
    return Verdict(
        lines=lines,
        dimensions=sizes,
        prompt_tokens=tokens,
        least=least,
        problems=(*problems, *_tokens(tokens, len(names))),
    )


def _lines(names: Sequence[str], reference: Said, candidate: Said) -> tuple[Line, ...]:
    ours, alone = candidate.batch.vectors, _stacked(candidate.singles)
    batch = _cosine(reference.batch.vectors, ours)
    single = _cosine(_stacked(reference.singles), alone)
    itself = _cosine(ours, alone)
    norms = np.linalg.norm(ours, axis=1)
    return tuple(
        Line(name=name, batch=float(b), single=float(s), itself=float(i), norm=float(n))
        for name, b, s, i, n in zip(names, batch, single, itself, norms, strict=True)
    )


def _stacked(answers: Sequence[Answer]) -> Vectors:
    return np.concatenate([answer.vectors for answer in answers])


def _cosine(left: Vectors, right: Vectors) -> Vectors:
    """Row by row; not a number anywhere becomes -1, so that it fails."""
    products: Vectors = (normalised(left) * normalised(right)).sum(axis=1)
    return np.nan_to_num(products, nan=-1.0)


def _cosines(lines: Sequence[Line], least: float) -> list[str]:
    found: list[str] = []
    batch = [line for line in lines if line.batch < least]
    single = [line for line in lines if line.single < least]
    if batch:
        found.append(_low("in a batch", batch, min(line.batch for line in batch), len(lines)))
    if single:
        found.append(_low("one by one", single, min(line.single for line in single), len(lines)))
    return found


def _low(how: str, low: Sequence[Line], worst: float, of: int) -> str:
    return (
        f"{len(low)} of {of} texts are below the gate {how}, the lowest at {worst:.4f} "
        f"('{low[0].name}' is one)"
    )


def _norms(lines: Sequence[Line]) -> list[str]:
    off = [line.norm for line in lines if not abs(line.norm - 1.0) <= NORM_WITHIN]
    return [f"{len(off)} vectors are not normalised: lengths up to {max(off):.4g}"] if off else []


def _places(candidate: Said, lines: Sequence[Line]) -> list[str]:
    """A text's vector is its own, wherever the text stands and whatever stands beside it.

    1. The indexes are not those of a list in order.
    2. Each vector that is not its text's own is another text's: the order is wrong, nothing else.
    3. Some are nobody's: a text's company changes them.
    """
    batch, backwards = candidate.batch, candidate.backwards
    size = len(batch.indexes)
    if any(each.indexes != tuple(range(size)) for each in (batch, backwards)):  # 1
        return ["the answer's indexes are not 0, 1, 2, ... in order"]
    elsewhere = _elsewhere(batch, candidate.singles)
    elsewhere += _elsewhere(backwards, candidate.singles[::-1])
    if elsewhere and all(elsewhere):  # 2
        return [
            f"wrong order: in a batch, {len(elsewhere)} vectors of {2 * size} are whole and right, "
            "but another text's: the answer must be in the order of the request"
        ]
    off = [line for line in lines if line.itself < ITSELF_AT_LEAST]
    if off:  # 3
        return [
            f"{len(off)} of {len(lines)} texts get another vector in a batch than alone: "
            "padding (the wrong side, no mask, or positions that do not know it)"
        ]
    turned = _cosine(batch.vectors, backwards.vectors[::-1])
    if float(turned.min()) < ITSELF_AT_LEAST:  # 3
        return ["the same texts in another order get other vectors: padding"]
    return []


def _elsewhere(batch: Answer, singles: Sequence[Answer]) -> list[bool]:
    """Of each vector that is not its text's own, asked alone: whether it is another text's."""
    alone = normalised(_stacked(singles))
    cosines = np.nan_to_num(normalised(batch.vectors) @ alone.T, nan=-1.0)
    off = np.diagonal(cosines) < ITSELF_AT_LEAST
    return [bool(row.max() >= ITSELF_AT_LEAST) for row in cosines[off]]


def _tokens(tokens: tuple[int | None, int | None], texts: int) -> list[str]:
    """A terminal token missing or doubled shows in the count, one for each text."""
    reference, candidate = tokens
    if reference is None or candidate is None or abs(reference - candidate) != texts:
        return []
    what = "one terminal token fewer" if candidate < reference else "one token more"
    return [f"prompt_tokens differ by one a text: the candidate has {what} in each"]
