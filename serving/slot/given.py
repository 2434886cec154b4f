"""A JSON object of a caller, read field by field; what does not fit is a BadRequest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from serving.slot.refusals import BadRequest


@dataclass(frozen=True, slots=True)
class Given:
    """The fields of a body."""

    fields: Mapping[str, Any]

    @classmethod
    def read(cls, data: Any, known: Sequence[str]) -> Given:
        """The object, if it has no other fields than the known ones."""
        if not isinstance(data, dict):
            raise BadRequest("the body must be a JSON object")
        if unknown := sorted(set(data) - set(known)):
            raise BadRequest(f"`{unknown[0]:.40}` is no field here; there is {', '.join(known)}")
        return cls({name: value for name, value in data.items() if value is not None})

    def text(self, name: str, otherwise: str | None = None) -> str:
        """A text; without `otherwise` it must be there."""
        value = self.fields.get(name, otherwise)
        if not isinstance(value, str):
            raise BadRequest(f"`{name}` must be text")
        return value

    def flag(self, name: str) -> bool:
        """True or false; false where it is not there."""
        value = self.fields.get(name, False)
        if not isinstance(value, bool):
            raise BadRequest(f"`{name}` must be true or false")
        return value

    def seconds(self, name: str) -> float:
        """A number that is not negative; 0 where it is not there."""
        value = self.fields.get(name, 0)
        good = isinstance(value, int | float) and not isinstance(value, bool)
        if not good or not 0 <= value < float("inf"):
            raise BadRequest(f"`{name}` must be seconds, 0 or more")
        return float(value)

    def count(self, name: str) -> int | None:
        """A whole number above 0; None where it is not there."""
        value = self.fields.get(name)
        if value is None:
            return None
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise BadRequest(f"`{name}` must be a whole number above 0")
        return value

    def rows(self, name: str) -> list[Given]:
        """A list of objects."""
        value = self.fields.get(name, [])
        if not isinstance(value, list):
            raise BadRequest(f"`{name}` must be a list")
        return [Given.read(each, ("lease", "recipe", "holder")) for each in value]
