"""Text or token ids -> one row of ids, with the tokenizer's opening and terminal tokens once.

The terminal token is the one whose vector is the answer, so it is neither lost (by a tokenizer
without the post-processor, by token ids that came without it, by truncation) nor doubled (by a
client that wrote it itself).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tokenizers import Tokenizer

from serving.embeddings.encoder import Row
from serving.embeddings.refusals import BadRequest, TooLong, UnknownToken
from serving.embeddings.request import Input


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """The ids that the tokenizer's post-processor puts around every text."""

    opening: tuple[int, ...]
    closing: tuple[int, ...]

    @property
    def tokens(self) -> int:
        """How many ids of a row it takes."""
        return len(self.opening) + len(self.closing)


def frame_of(tokenizer: Tokenizer) -> Frame:
    """What the post-processor adds, found by asking it."""
    bare = tokenizer.encode("a", add_special_tokens=False).ids
    whole = tokenizer.encode("a").ids
    start = next(i for i in range(len(whole)) if whole[i : i + len(bare)] == bare)
    return Frame(opening=tuple(whole[:start]), closing=tuple(whole[start + len(bare) :]))


def framed(body: Row, frame: Frame, limit: int | None = None) -> list[int]:
    """`body` in its frame exactly once, at most `limit` ids long; the frame is never cut."""
    bare = _without(list(body), frame)
    if limit is not None:
        bare = bare[: max(0, limit - frame.tokens)]
    return [*frame.opening, *bare, *frame.closing]


def _without(ids: list[int], frame: Frame) -> list[int]:
    """Ids without frames that the client, or its text, brought along."""
    start, end = 0, len(ids)
    opening, closing = list(frame.opening), list(frame.closing)
    while opening and ids[start : start + len(opening)] == opening:
        start += len(opening)
    while closing and end - len(closing) >= start and ids[end - len(closing) : end] == closing:
        end -= len(closing)
    return ids[start:end]


class RowMaker:
    """Makes rows for one model. `rows` may be called from several threads."""

    def __init__(self, tokenizer: Tokenizer, max_tokens: int) -> None:
        tokenizer.no_padding()  # padding is the encoder's; a tokenizer file may ask for it too
        tokenizer.no_truncation()  # its own cut does not know which token matters
        self._tokenizer = tokenizer
        self._vocabulary = tokenizer.get_vocab_size(with_added_tokens=True)
        self._max_tokens = max_tokens
        self.frame = frame_of(tokenizer)

    def rows(self, inputs: Sequence[Input], cut_to: int | None) -> list[list[int]]:
        """One row for each input. Raises TooLong, UnknownToken, or BadRequest for too small a cut.

        1. `cut_to` keeps the first ids that leave room for the frame.
        2. Without it, a text that is too long is refused, by its index and length.
        """
        if cut_to is not None and cut_to <= self.frame.tokens:
            raise BadRequest(
                f"`truncate_prompt_tokens` must be above {self.frame.tokens}: the terminal tokens "
                "are always kept",
                param="truncate_prompt_tokens",
            )
        found = [
            framed(self._ids(index, each), self.frame, cut_to) for index, each in enumerate(inputs)
        ]
        for index, row in enumerate(found):
            if len(row) > self._max_tokens:
                raise TooLong(
                    f"input {index} has {len(row)} tokens; the limit is {self._max_tokens}: split "
                    "it, or send truncate_prompt_tokens: -1 to embed its beginning",
                    param="input",
                )
        return found

    def _ids(self, index: int, given: Input) -> Row:
        if isinstance(given, str):
            return self._tokenizer.encode(given, add_special_tokens=False).ids
        if min(given) < 0 or max(given) >= self._vocabulary:
            raise UnknownToken(
                f"input {index} has token ids that this model's tokenizer does not have (0 to "
                f"{self._vocabulary - 1}): send text; LangChain's OpenAIEmbeddings does with "
                "check_embedding_ctx_length=False",
                param="input",
            )
        return given
