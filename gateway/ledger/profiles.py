"""ROI profiles: which model of which provider local tokens are held against. In git, no prices."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from common.problems import Problem, in_order
from common.source import Source, read_file
from gateway.ledger.strict import Block, Text, fit, prices_in


class _Profile(Block):
    id: Text
    name: Text
    family: Text
    version: Text
    params: Text
    provider: Text
    model: Text
    match: list[Text] = []


class _File(Block):
    profiles: list[_Profile]


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """One model in the cloud, by the name that its provider gives it."""

    id: str
    name: str
    provider: str
    model: str


def read_profiles(path: Path) -> tuple[Mapping[str, Profile], tuple[Problem, ...]]:
    """The profiles by id, and what is wrong with the file. No file: no profiles."""
    if not path.exists():
        return {}, ()
    source = read_file(str(path))
    priced = tuple(prices_in(source))
    fitted, problems = fit(_File, source)
    if fitted is None:
        told = {p.place for p in priced}  # that it is not known is the smaller news
        return {}, in_order((*priced, *(p for p in problems if p.place not in told)))
    found = {p.id: Profile(id=p.id, name=p.name, provider=p.provider, model=p.model)
             for p in fitted.profiles}  # fmt: skip
    return found, in_order(_twice(fitted, source))


def _twice(file: _File, source: Source) -> list[Problem]:
    seen: set[str] = set()
    problems = []
    for i, profile in enumerate(file.profiles):
        if profile.id in seen:
            at = source.value(("profiles", i, "id"))
            said = f"the id `{profile.id}` is here twice: each profile needs its own"
            problems.append(Problem(at, "error", "duplicate-id", said))
        seen.add(profile.id)
    return problems
