"""The body of POST /v1/embeddings -> Request, or a refusal that says what to do. No I/O."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec

from serving.embeddings.encoder import Traits
from serving.embeddings.refusals import (
    BadRequest,
    EmptyInput,
    NoSuchDimensions,
    NoSuchModel,
    TooLarge,
    UnsupportedParameter,
)

# What other servers take as an order to change the text or the vector. Ignoring one would give the
# client another vector than it asked for; the lanes embed raw text, so a prefix is the client's.
UNSUPPORTED = frozenset(
    {
        *("input_type", "task", "task_type", "instruction", "prompt", "prompt_name"),
        *("pooling", "pooling_type", "normalize", "normalized", "embd_normalize"),
        *("add_special_tokens", "truncation_side", "messages"),
    }
)

Input = str | tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What a client wants embedded, and how it wants the answer."""

    inputs: tuple[Input, ...]
    base64: bool
    dimensions: int | None  # None: the model's own
    cut_to: int | None  # tokens; None: a text that is too long is refused


def parse(body: bytes, traits: Traits, *, max_inputs: int, truncate: bool) -> Request:
    """Read a body for the model `traits`. Raises the refusals of this file's imports."""
    fields = _fields(body)
    _check_model(fields.get("model"), traits)
    for name in UNSUPPORTED.intersection(fields):
        raise UnsupportedParameter(
            f"`{name}` is not supported: this server embeds raw text by one contract; put a prefix "
            "into the input",
            param=name,
        )
    inputs = _inputs(fields.get("input"))
    if len(inputs) > max_inputs:
        raise TooLarge(
            f"{len(inputs)} inputs in one request; the limit is {max_inputs}", param="input"
        )
    return Request(
        inputs=inputs,
        base64=_is_base64(fields.get("encoding_format")),
        dimensions=_dimensions(fields.get("dimensions"), traits),
        cut_to=_cut_to(fields.get("truncate_prompt_tokens"), traits, truncate=truncate),
    )


def _fields(body: bytes) -> dict[str, Any]:
    try:
        found = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BadRequest(f"the body is not JSON: {error}") from error
    if not isinstance(found, dict):
        raise BadRequest("the body must be a JSON object with `model` and `input`")
    return found


def _check_model(name: object, traits: Traits) -> None:
    if name is None or name == traits.name:
        return
    if not isinstance(name, str):
        raise BadRequest("`model` must be a string", param="model")
    raise NoSuchModel(
        f"this server has the model '{traits.name}' only; vectors of another one would not fit "
        "your index",
        param="model",
    )


def _inputs(value: object) -> tuple[Input, ...]:
    """A string, a list of strings, a list of token ids, or a list of such lists."""
    if isinstance(value, str):
        given: list[object] = [value]
    elif isinstance(value, list):
        if not value:
            raise EmptyInput("`input` is an empty list", param="input")
        given = [value] if _is_id(value[0]) else value
    else:
        raise BadRequest(
            "`input` must be a string, a list of strings, a list of token ids, or a list of lists "
            "of token ids",
            param="input",
        )
    return tuple(_input(index, each) for index, each in enumerate(given))


def _input(index: int, value: object) -> Input:
    if isinstance(value, str):
        if not value:
            raise EmptyInput(f"input {index} is an empty string", param="input")
        return value
    if isinstance(value, list) and all(_is_id(each) for each in value):
        if not value:
            raise EmptyInput(f"input {index} is an empty list of token ids", param="input")
        return tuple(value)
    raise BadRequest(f"input {index} is neither text nor a list of token ids", param="input")


def _is_id(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_base64(value: object) -> bool:
    if value not in (None, "float", "base64"):
        raise BadRequest("`encoding_format` must be float or base64", param="encoding_format")
    return value == "base64"


def _dimensions(value: object, traits: Traits) -> int | None:
    if value is None or (_is_id(value) and value == traits.dimensions):
        return None
    if not _is_id(value):
        raise BadRequest("`dimensions` must be a whole number", param="dimensions")
    assert isinstance(value, int)  # noqa: S101 - for the type checker
    least = traits.smallest_cut
    if least is None:
        raise NoSuchDimensions(
            f"'{traits.name}' has {traits.dimensions} dimensions and is not trained to be cut",
            param="dimensions",
        )
    if not least <= value <= traits.dimensions:
        raise NoSuchDimensions(
            f"`dimensions` must be {least} to {traits.dimensions}", param="dimensions"
        )
    return value


def _cut_to(value: object, traits: Traits, *, truncate: bool) -> int | None:
    """VLLM's `truncate_prompt_tokens`: a number of tokens, or -1 for as many as the model takes."""
    if value is None:
        return traits.max_tokens if truncate else None
    if not _is_id(value) or not isinstance(value, int) or (value < 1 and value != -1):
        raise BadRequest(
            "`truncate_prompt_tokens` must be a number of tokens, or -1 for the model's limit",
            param="truncate_prompt_tokens",
        )
    return traits.max_tokens if value == -1 else min(value, traits.max_tokens)
