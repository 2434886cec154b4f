"""Bodies and rows: what is taken, and what is refused with a code and a way out."""

from __future__ import annotations

import json
from typing import Any

import pytest

from serving.embeddings.encoder import Traits
from serving.embeddings.refusals import (
    BadRequest,
    EmptyInput,
    NoSuchDimensions,
    NoSuchModel,
    Refusal,
    TooLarge,
    TooLong,
    UnknownToken,
    UnsupportedParameter,
)
from serving.embeddings.request import Request, parse
from serving.embeddings.tokens import Frame, RowMaker, framed
from tests.embeddings.fake import TERMINAL, tokenizer

TRAITS = Traits(name="tiny", dimensions=8, max_tokens=10, pass_tokens=16, waiting_tokens=99)


def read(_truncate: Any = False, /, **fields: Any) -> Request:
    traits = Traits(
        name="tiny", dimensions=8, max_tokens=10, pass_tokens=16, waiting_tokens=99, smallest_cut=2
    )
    return parse(json.dumps(fields).encode(), traits, max_inputs=3, truncate=_truncate)


def test_text_lists_and_ids_are_read_as_openai_means_them() -> None:
    assert read(input="a").inputs == ("a",)
    assert read(input=["a", "b"]).inputs == ("a", "b")
    assert read(input=[5, 6]).inputs == ((5, 6),)
    assert read(input=[[5], [6, 7]]).inputs == ((5,), (6, 7))


@pytest.mark.parametrize(
    ("fields", "refusal"),
    [
        ({}, BadRequest),
        ({"input": None}, BadRequest),
        ({"input": {"text": "a"}}, BadRequest),
        ({"input": [True]}, BadRequest),
        ({"input": ["a", 5]}, BadRequest),
        ({"input": [5, "a"]}, BadRequest),
        ({"input": []}, EmptyInput),
        ({"input": ""}, EmptyInput),
        ({"input": ["a", ""]}, EmptyInput),
        ({"input": [[5], []]}, EmptyInput),
        ({"input": ["a"] * 4}, TooLarge),
        ({"input": "a", "model": "other"}, NoSuchModel),
        ({"input": "a", "model": 5}, BadRequest),
        ({"input": "a", "encoding_format": "hex"}, BadRequest),
        ({"input": "a", "dimensions": 1}, NoSuchDimensions),
        ({"input": "a", "dimensions": 9}, NoSuchDimensions),
        ({"input": "a", "dimensions": "8"}, BadRequest),
        ({"input": "a", "input_type": "query"}, UnsupportedParameter),
        ({"input": "a", "normalize": False}, UnsupportedParameter),
        ({"input": "a", "truncate_prompt_tokens": 0}, BadRequest),
    ],
)
def test_a_body_that_is_wrong_is_refused_by_name(
    fields: dict[str, object], refusal: type[Refusal]
) -> None:
    with pytest.raises(refusal) as caught:
        read(**fields)

    assert caught.value.body()["error"]["code"] == refusal.code
    assert caught.value.status == (404 if refusal is NoSuchModel else caught.value.status)


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"\xff", b'{"input": "\xff"}'])
def test_a_body_that_is_no_json_object_is_a_400(body: bytes) -> None:
    with pytest.raises(BadRequest):
        parse(body, TRAITS, max_inputs=3, truncate=False)


def test_the_native_dimensions_are_no_cut_even_where_none_is_trained() -> None:
    body = b'{"input": "a", "dimensions": %d}'

    assert parse(body % 8, TRAITS, max_inputs=3, truncate=False).dimensions is None
    with pytest.raises(NoSuchDimensions, match="not trained to be cut"):
        parse(body % 4, TRAITS, max_inputs=3, truncate=False)


def test_what_a_client_may_ask_to_cut_is_bounded_by_the_model() -> None:
    assert read(input="a").cut_to is None
    assert read(input="a", truncate_prompt_tokens=4).cut_to == 4
    assert read(input="a", truncate_prompt_tokens=-1).cut_to == 10
    assert read(input="a", truncate_prompt_tokens=99).cut_to == 10
    assert read(True, input="a").cut_to == 10


@pytest.mark.parametrize(
    ("given", "row"),
    [
        ("w5 w6", [5, 6, TERMINAL]),
        ("w5 w6 <end>", [5, 6, TERMINAL]),
        ("w5 <end> <end>", [5, TERMINAL]),
        ("w5 <end> w6", [5, TERMINAL, 6, TERMINAL]),
        ("<end>", [TERMINAL]),
        ((5, 6), [5, 6, TERMINAL]),
        ((5, 6, TERMINAL), [5, 6, TERMINAL]),
        ((5, TERMINAL, TERMINAL), [5, TERMINAL]),
    ],
)
def test_the_terminal_token_is_there_exactly_once(
    given: str | tuple[int, ...], row: list[int]
) -> None:
    assert RowMaker(tokenizer(), 10).rows([given], None) == [row]


def test_a_frame_on_both_sides_is_kept_once_and_never_cut() -> None:
    frame = Frame(opening=(8,), closing=(9,))

    assert framed([8, 8, 5, 6, 7, 9], frame) == [8, 5, 6, 7, 9]
    assert framed([5, 6, 7], frame, 4) == [8, 5, 6, 9]


def test_a_cut_text_keeps_its_beginning_and_the_terminal_token() -> None:
    rows = RowMaker(tokenizer(), 10).rows(["w2 w3 w4 w5 w6", "w7"], 3)

    assert rows == [[2, 3, TERMINAL], [7, TERMINAL]]


def test_a_text_that_is_too_long_is_refused_with_its_index_and_length() -> None:
    with pytest.raises(TooLong, match=r"input 1 has 11 tokens; the limit is 10"):
        RowMaker(tokenizer(), 10).rows(["w2", "w2 " * 10], None)


def test_a_cut_that_leaves_no_room_for_text_is_refused() -> None:
    with pytest.raises(BadRequest, match="above 1"):
        RowMaker(tokenizer(), 10).rows(["w2"], 1)


def test_ids_of_another_tokenizer_are_refused_with_the_way_to_send_text() -> None:
    with pytest.raises(UnknownToken, match="check_embedding_ctx_length=False"):
        RowMaker(tokenizer(), 10).rows([(5, 100)], None)
    with pytest.raises(UnknownToken):
        RowMaker(tokenizer(), 10).rows([(-1,)], None)
