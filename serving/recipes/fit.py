"""Data into a block of the schema; everything that does not fit is a problem with its place."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from typing import Any, Final, TypeVar, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from common.problems import Problem
from common.source import Path, Source
from serving.recipes.codes import problem

Fitted = TypeVar("Fitted", bound=BaseModel)

_WANTED: Final[Mapping[str, str]] = {
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "finite_number": "a finite number",
    "bool_type": "true or false",
    "string_type": "text",
    "string_too_short": "text that is not empty",
    "tuple_type": "a list",
    "dict_type": "a mapping",
    "model_type": "a mapping",
}
_PRICES: Final = ("in_per_m", "out_per_m", "price", "prices", "pricing", "cost", "usd")


def fit(model: type[Fitted], source: Source) -> tuple[Fitted | None, tuple[Problem, ...]]:
    """The file as `model`; None, and all problems, where anything does not fit."""
    try:
        return model.model_validate(_without_nulls(source.data)), ()
    except ValidationError as error:
        found = error.errors(include_url=False, include_context=True)
    return None, tuple(p for detail in found for p in _problems(model, detail, source))


def did_you_mean(word: str, choices: Any) -> str:
    """The nearest of the choices as a question, or nothing."""
    near = get_close_matches(word, list(choices), n=1, cutoff=0.6)
    return f" (did you mean '{near[0]}'?)" if near else ""


def _without_nulls(data: Any) -> Any:
    """A key without a value is as good as absent."""
    if isinstance(data, Mapping):
        return {k: _without_nulls(v) for k, v in data.items() if v is not None}
    return data


def _problems(model: type[BaseModel], detail: ErrorDetails, source: Source) -> Iterator[Problem]:
    path: Path = tuple(step for step in _within(detail, source) if step != "[key]")
    kind, context = detail["type"], detail.get("ctx", {})
    if kind == "extra_forbidden":
        yield _unknown(model, path, source)
    elif kind == "missing":
        said = f"{_name(path[:-1])} has no `{path[-1]}`"
        yield problem(source.value(path[:-1]), "missing-key", said)
    elif kind == "literal_error":
        choices = str(context.get("expected", "")).split("'")[1::2]
        said = f"{_name(path)} must be one of {', '.join(choices)}, not `{detail['input']}`"
        said += did_you_mean(str(detail["input"]), choices)
        yield problem(source.value(path), "wrong-value", said)
    else:
        wanted = _WANTED.get(kind) or _bound(context) or detail["msg"].lower()
        written = source.texts.get(path)
        said = f"{_name(path)} must be {wanted}"
        if kind != "string_too_short":
            said += f", not `{written}`" if written is not None else ", not a list or a mapping"
        if kind == "string_type" and written is not None:
            said += ": quote it"
        elif kind in ("int_type", "float_type") and str(written).isdigit():
            said += " in quotes: leave them out"
        code = "wrong-type" if kind in _WANTED else "wrong-value"
        yield problem(source.value(path), code, said)


def _within(detail: ErrorDetails, source: Source) -> Path:
    """The way to the value in the file, without the steps that name one type of a union."""
    steps: Path = ()
    for step in detail["loc"]:
        if (*steps, step) in source.values or step == detail["loc"][-1]:
            steps = (*steps, step)
    known = steps if steps in source.values else steps[:-1]
    return steps if detail["type"] in ("missing", "extra_forbidden") else known or steps


def _unknown(model: type[BaseModel], path: Path, source: Source) -> Problem:
    key = str(path[-1])
    if key in _PRICES:
        said = f"`{key}`: a price does not belong in a recipe: `serving recipe roi-new` keeps it"
        return problem(source.place(path), "price", said + " in run/prices.json")
    said = f"`{key}` in {_name(path[:-1])} is not known" + did_you_mean(key, fields(model, path))
    return problem(source.place(path), "unknown-key", said)


def fields(model: type[BaseModel], path: Path) -> tuple[str, ...]:
    """The keys of the block that holds `path`."""
    for step in path[:-1]:
        if isinstance(step, str) and step in model.model_fields:
            inner = _models(model.model_fields[step].annotation)
            model = inner[0] if inner else model
    return tuple(model.model_fields)


def _models(annotation: Any) -> list[type[BaseModel]]:
    parts = get_args(annotation)
    if not parts and isinstance(annotation, type):
        return [annotation] if issubclass(annotation, BaseModel) else []
    return [found for part in parts for found in _models(part)]


def _bound(context: Mapping[str, Any]) -> str:
    words = {"gt": "above", "ge": "at least", "le": "at most", "lt": "below"}
    return next((f"{word} {context[k]:g}" for k, word in words.items() if k in context), "")


def _name(path: Path) -> str:
    steps = [step for step in path if isinstance(step, str)][-2:]
    named = f"`{'.'.join(steps)}`" if steps else "the file"
    return f"an entry of {named}" if path and isinstance(path[-1], int) else named
