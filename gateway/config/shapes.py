"""Data into a block of the schema; everything that does not fit is a problem with its place.

A value that does not fit is left out, so that the rest can still be checked: the caller must not
serve what comes out together with an error.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from typing import Any, Final, Literal, TypeVar

import yaml
from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from common.problems import Problem
from common.source import Path, Source
from gateway.config import grammar, known
from gateway.config.env import Resolved, deployment_name

Fitted = TypeVar("Fitted", bound=BaseModel)

_WANTED: Final[Mapping[str, str]] = {
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "finite_number": "a finite number",
    "bool_type": "true or false",
    "string_type": "text",
    "string_too_short": "text that is not empty",
    "list_type": "a list",
    "dict_type": "a mapping",
    "model_type": "a mapping",
    "model_attributes_type": "a mapping",
}

_NUMBERS: Final = ("int_type", "float_type")

# What to write instead, by the setting's name, where the wanted type alone does not teach it.
_REMEDY: Final[Mapping[str, str]] = {
    "timeout": "write seconds, such as 30; null or 0 is no limit",
    "request_timeout": "write seconds, such as 30; null or 0 is no limit",
    "stream_timeout": "write seconds, such as 30; null or 0 is no limit",
    "cooldown_time": "write seconds, such as 45",
    "fallbacks": "write a list: `- group: [other]`",
    "context_window_fallbacks": "write a list: `- group: [other]`",
    "model_list": "write a list of `- model_name: ...`",
    "client_keys": "write a list of {name: ..., key: os.environ/NAME}",
}

_SECRET: Final = ("key", "api_key", "master_key")


def fit(
    model: type[Fitted],
    data: Any,
    path: Path,
    *,
    source: Source,
    resolved: Resolved,
    bridged: bool = False,
) -> tuple[Fitted | None, tuple[Problem, ...]]:
    """The block at `path` as `model`; None where what must be there is missing."""
    problems: list[Problem] = []
    rest = _without_nulls(copy.deepcopy(data))
    left_out: set[Path] = set()
    while True:  # each round takes a value out, or reads a variable's text as a number
        try:
            return model.model_validate(rest), tuple(problems)
        except ValidationError as error:
            found = error.errors(include_url=False, include_context=True)
        if any([_convert(detail, rest, path, resolved) for detail in found]):  # noqa: C419
            continue  # all of them at once: `any` alone would stop at the first
        for detail in found:
            steps = _steps(detail)
            unknown = (*path, *steps) in resolved.unset and detail["type"] != "extra_forbidden"
            if steps not in left_out and not unknown:
                problems += _problems(detail, path, source, bridged=bridged)
        for detail in found:
            if not _leave_out(detail, rest, left_out):
                return None, tuple(problems)


def _without_nulls(data: Any) -> Any:
    """A key without a value is as good as absent, and so is a block with nothing under it."""
    if isinstance(data, dict):
        return {k: _without_nulls(v) for k, v in data.items() if v is not None}
    return data


def _steps(detail: ErrorDetails) -> Path:
    return tuple(step for step in detail["loc"] if step != "[key]")


def _convert(detail: ErrorDetails, rest: Any, path: Path, resolved: Resolved) -> bool:
    """A variable is text; where a number or a switch is wanted, read its value as YAML would.

    One without a value stands for some number: a cap is there, though nobody knows which.
    """
    steps = _steps(detail)
    if (*path, *steps) not in resolved.variables or detail["type"] not in (*_NUMBERS, "bool_type"):
        return False
    unset = (*path, *steps) in resolved.unset and detail["type"] in _NUMBERS
    try:
        value = 1 if unset else yaml.safe_load(str(detail["input"]))
    except yaml.YAMLError:
        return False
    if not isinstance(value, int | float):  # a switch is an int too
        return False
    holder = rest
    for step in steps[:-1]:
        holder = holder[step]
    holder[steps[-1]] = value
    return True


def _leave_out(detail: ErrorDetails, rest: Any, left_out: set[Path]) -> bool:
    """Take the value that does not fit out of `rest`: the nearest key above it that is optional.

    False where the block itself cannot be without it.
    """
    steps = list(_steps(detail))
    if detail["type"] == "missing":
        steps.pop()
    while steps:
        holder: Any = rest
        for step in steps[:-1]:
            holder = holder.get(step) if isinstance(holder, dict) else None
        if isinstance(holder, dict):
            holder.pop(steps[-1], None)
            left_out.add(tuple(steps))
            return True
        steps.pop()
    return False


def _problems(
    detail: ErrorDetails, path: Path, source: Source, *, bridged: bool
) -> Iterator[Problem]:
    steps = _steps(detail)
    full = (*path, *steps)
    kind = detail["type"]
    if kind == "extra_forbidden":
        yield from grammar.not_a_field(full, detail["input"], source, bridged=bridged)
    elif kind == "missing":
        yield _missing(full, source)
    elif "[key]" in detail["loc"]:
        choices = _choices(detail)
        said = f"`{steps[-1]}` in {_name(full[:-1])} is not known"
        said += known.did_you_mean(str(steps[-1]), choices)
        yield Problem(source.place(full), "error", "unknown-key", said)
    elif kind == "literal_error":
        choices, given = _choices(detail), str(detail["input"])
        said = f"{_name(full)} must be one of {', '.join(choices)}, not `{given}`"
        near = known.nearest(given, choices)
        said += f" (did you mean '{near}'?)" if near else ""
        if full[-2:] == ("model_info", "mode") and not near:
            said += ": other kinds are not served here, so leave this entry out"
        yield Problem(source.value(full), "error", "wrong-value", said)
    else:
        yield _wrong(detail, full, source)


def _missing(full: Path, source: Source) -> Problem:
    what = full[-1]
    place = source.value(full[:-1])
    if full[0] == "model_list" and len(full) > 1:
        owner = deployment_name(source.data, full)
        if what == "litellm_params":
            place = source.place((*full[:-1], "model_name"))
        return Problem(place, "error", "missing-key", f"{owner} has no `{what}`")
    return Problem(place, "error", "missing-key", f"{_name(full[:-1])} has no `{what}`")


def _wrong(detail: ErrorDetails, full: Path, source: Source) -> Problem:
    """A value of the wrong type, or out of bounds."""
    kind, context = detail["type"], detail.get("ctx", {})
    code: Literal["wrong-type", "wrong-value"] = "wrong-type" if kind in _WANTED else "wrong-value"
    wanted = _WANTED.get(kind)
    if wanted is None and "gt" in context:
        wanted = f"above {context['gt']:g}"
    elif wanted is None and "ge" in context:
        wanted = f"{context['ge']:g} or more"
    said = f"{_name(full)} must be {wanted or detail['msg'].lower()}"
    said += "" if kind == "string_too_short" else f", not {_shown(full, detail, source)}"
    steps = [step for step in full if isinstance(step, str)]
    about = [*steps[-1:], *(step for step in steps if step.endswith("fallbacks"))]
    remedies = (_REMEDY[step] for step in about if step in _REMEDY)
    if kind in _WANTED and (remedy := next(remedies, None)):
        said += f": {remedy}"
    elif kind in _NUMBERS and str(detail["input"]).strip().isdigit():
        said += ": leave the quotes out"
    return Problem(source.value(full), "error", code, said)


def _shown(full: Path, detail: ErrorDetails, source: Source) -> str:
    """The value as the file has it; never that of a key."""
    value = detail["input"]
    kinds: tuple[tuple[type, str], ...] = (
        (bool, "a switch"),
        (int, "a number"),
        (float, "a number"),
        (str, "text"),
        (list, "a list"),
        (dict, "a mapping"),
    )
    word = next((name for kind, name in kinds if isinstance(value, kind)), "that")
    written = source.texts.get(full)
    if isinstance(value, bool) and full[-1] in _SECRET:
        return "a switch (YAML reads on, off, yes and no as one): quote it"
    if written is None or full[-1] in _SECRET:
        return word
    if isinstance(value, bool):
        return f"`{written}`, which YAML reads as {str(value).lower()}: quote it if it is text"
    if isinstance(value, str):
        return f"the text `{written}`"
    return f"`{written}`"


def _choices(detail: ErrorDetails) -> list[str]:
    """The words that a literal allows; pydantic gives them as `'a', 'b' or 'c'`."""
    expected = str(detail.get("ctx", {}).get("expected", ""))
    return [word for word in expected.split("'") if word.strip() not in ("", ",", "or")]


def _name(path: Path) -> str:
    """A setting with the block around it, as a message calls it."""
    steps = [step for step in path if isinstance(step, str)][-2:]
    name = f"`{'.'.join(steps)}`" if steps else "the file"
    return f"an entry of {name}" if path and isinstance(path[-1], int) else name
