"""A file of the ledger into its model; everything that does not fit is a problem with its place.

Numbers become Decimal from the text that stands in the file: no price passes through a float.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from decimal import Decimal, InvalidOperation
from difflib import get_close_matches
from pathlib import Path as FilePath
from typing import Annotated, Any, Final, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError
from pydantic_core import ErrorDetails, PydanticCustomError

from common.problems import Problem
from common.source import Path, Source, read_file

Fitted = TypeVar("Fitted", bound=BaseModel)
Text = Annotated[str, Field(min_length=1)]


def _number(value: Any) -> Any:
    if not isinstance(value, Decimal):
        raise PydanticCustomError("number_type", "a number")
    return value


Money = Annotated[
    Decimal, BeforeValidator(_number), Field(ge=0, le=1_000_000_000, allow_inf_nan=False)
]
PRICE_KEYS: Final = ("in_per_m", "out_per_m", "price", "prices", "pricing")

_WANTED: Final[Mapping[str, str]] = {
    "number_type": "a number, without quotes",
    "finite_number": "a finite number",
    "greater_than_equal": "0 or more",
    "less_than_equal": "a billion dollars or less",
    "string_type": "text",
    "string_too_short": "text that is not empty",
    "list_type": "a list",
    "dict_type": "a mapping",
    "model_type": "a mapping",
    "model_attributes_type": "a mapping",
}
_VALUES: Final = ("greater_than_equal", "less_than_equal", "finite_number")


class Block(BaseModel):
    """A closed block: a key that is no field is a problem."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, defer_build=True)


def fit(model: type[Fitted], source: Source) -> tuple[Fitted | None, tuple[Problem, ...]]:
    """The whole file as `model`; None, and every problem, where it does not fit."""
    if source.problems:
        return None, tuple(map(_worded, source.problems))
    try:
        return model.model_validate(_exact(source.data, (), source)), ()
    except ValidationError as error:
        found = error.errors(include_url=False)
    return None, tuple(_problem(detail, source, _keys(model)) for detail in found)


def prices_in(source: Source) -> Iterator[Problem]:
    """A price in a file that is in git is an error: prices are of one machine, and change."""
    for path in source.keys:
        if path[-1] in PRICE_KEYS:
            said = f"`{path[-1]}`: no price belongs in a file that is in git; set it with "
            yield Problem(
                source.place(path), "error", "price-in-git", said + "`gateway usage price`"
            )


def did_you_mean(word: str, known: Any) -> str:
    """The nearest of the known words, as a question; "" where none is near."""
    near = get_close_matches(word, list(known), n=1)
    return f" (did you mean '{near[0]}'?)" if near else ""


def of_this_machine(path: FilePath) -> Source | None:
    """A file that need not be there, read; None where it is not, or is empty."""
    if not path.exists():
        return None
    source = read_file(str(path))
    empty = not source.data and all(p.code == "empty-file" for p in source.problems)
    return None if empty else source


def _worded(problem: Problem) -> Problem:
    """JSON is read as the YAML that it is; people know it by its own name."""
    if not problem.place.file.endswith(".json"):
        return problem
    return replace(problem, message=problem.message.replace("YAML", "JSON"))


def _exact(value: Any, path: Path, source: Source) -> Any:
    if isinstance(value, Mapping):
        return {k: _exact(v, (*path, k), source) for k, v in value.items() if v is not None}
    if isinstance(value, list):
        return [_exact(v, (*path, i), source) for i, v in enumerate(value)]
    if isinstance(value, int | float) and not isinstance(value, bool):
        try:
            return Decimal(source.texts[path])
        except InvalidOperation:  # such as 0x10 or .inf, which YAML alone reads
            return Decimal(str(value))
    return value


def _problem(detail: ErrorDetails, source: Source, known: set[str]) -> Problem:
    path = tuple(step for step in detail["loc"] if step != "[key]")
    kind, name = detail["type"], f"`{detail['loc'][-1]}`" if detail["loc"] else "the file"
    if kind == "extra_forbidden":
        said = f"{name} is not known here{did_you_mean(str(path[-1]), known)}"
        return Problem(source.place(path), "error", "unknown-key", said)
    if kind == "missing":
        return Problem(source.value(path[:-1]), "error", "missing-key", f"{name} is missing")
    written = source.texts.get(path)
    given = f", not `{written}`" if written else ""
    if kind == "string_type" and written is not None:
        given += ": quote it"
    wanted = _WANTED.get(kind) or detail["msg"].removeprefix("Value error, ")
    wanted = wanted.removeprefix("Input should be ")
    code = "wrong-type" if kind in _WANTED and kind not in _VALUES else "wrong-value"
    return Problem(source.value(path), "error", code, f"{name} must be {wanted}{given}")


def _keys(model: type[BaseModel]) -> set[str]:
    """Every key that may stand anywhere in the file."""
    text = model.model_json_schema()
    blocks = [text, *text.get("$defs", {}).values()]
    return {key for block in blocks for key in block.get("properties", {})}
