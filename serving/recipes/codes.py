"""Every code of the reader with its severity: one row a rule. docs/recipes.md says why each is one.

A recipe with an error is not listed and cannot be loaded; a warning is what a person should decide.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from common.problems import Place, Problem, Severity

CODES: Final[Mapping[str, Severity]] = {
    # the shape of the file
    "unknown-key": "error",
    "missing-key": "error",
    "wrong-type": "error",
    "wrong-value": "error",
    "other-engine": "error",
    # names
    "id-format": "error",
    "id-file": "error",
    "id-taken": "error",
    "alias-taken": "error",
    "draft-place": "error",
    # what must agree
    "port-differs": "error",
    "context-differs": "error",
    "context-native": "error",
    "name-differs": "error",
    "container-taken": "error",
    "solo": "error",
    "placeholder": "error",
    # cloud identity and prices
    "roi-missing": "error",
    "roi-unknown": "error",
    "price": "error",
    # files that a recipe names
    "service-file": "error",
    "service-command": "error",
    "pin-file": "error",
    "pin-differs": "error",
    "pin-digest": "warning",
    # what should not be in a file, or not so
    "secret": "error",
    "public-host": "error",
    "image-tag": "warning",
    "deprecated": "warning",
}


def problem(place: Place, code: str, message: str) -> Problem:
    """A problem of this reader; its severity is its code's."""
    return Problem(place, CODES[code], code, message)
