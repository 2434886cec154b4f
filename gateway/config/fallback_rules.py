"""Isolation rules about fallbacks and embedding lanes, one code each.

fallback-cycle        groups that fall back to each other
smaller-window        (warning) a fallback to a smaller context window
fallback-mode         (warning) a fallback between chat and embeddings, which serves nothing
embedding-fallback    an embedding group falls back to another embedding model
embedding-mixed       (warning) two models in one embedding group
lanes-mixed           one group with members of both lanes
lanes-share-upstream  the ingest and the query lane on one upstream
lanes-fallback        one lane falls back to the other
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from common.problems import Place, Problem
from gateway.config.config import Config, Deployment, Upstream
from gateway.config.reach import Path

PlaceOf = Callable[[Path], Place]
Members = tuple[Deployment, ...]

TEXT_MODES = frozenset({"chat", "completion"})


@dataclass(frozen=True, slots=True)
class Edge:
    """One entry of a fallback list: what falls back (a group or an alias), to which group."""

    key: str
    source: str  # the key's group
    target: str
    block: str  # the YAML key of the list
    path: Path


def check(config: Config, place: PlaceOf) -> Iterator[Problem]:
    """Every breach of the rules above. Targets that do not exist are another rule's."""
    groups = config.groups()
    edges = [e for e in _edges(config) if e.source in groups and e.target in groups]
    yield from _cycles(config, edges, place)
    for edge in edges:
        at = place(located(edge.path, place))
        source, target = groups[edge.source], groups[edge.target]
        yield from _window(edge, source, target, at)
        yield from _modes(edge, source, target, at)
        yield from _lane_fallback(edge, source, target, at)
    yield from _mixed(groups)
    yield from _lanes_apart(config)


def located(path: Path, place: PlaceOf) -> Path:
    """A fallback path in the block that the file really uses: LiteLLM reads two."""
    other: Path = ("litellm_settings", *path[1:])
    written = place(other[:2]) not in (place(other[:1]), place(()))
    return other if written else path


def _edges(config: Config) -> Iterator[Edge]:
    """Every fallback that the file writes out, then those that `default_fallbacks` implies."""
    aliases = {a.name: a.group for a in config.aliases.values()}
    lists = {
        "fallbacks": config.fallbacks,
        "context_window_fallbacks": config.context_window_fallbacks,
    }
    for block, entries in lists.items():
        for n, (key, targets) in enumerate(entries.items()):
            for i, target in enumerate(targets):
                path: Path = ("router_settings", block, n, key, i)
                yield Edge(key, aliases.get(key, key), target, block, path)
    for group in config.groups():
        for i, target in enumerate(config.default_fallbacks):
            if group not in config.fallbacks and target != group:
                path = ("router_settings", "default_fallbacks", i)
                yield Edge(group, group, target, "default_fallbacks", path)


def _cycles(config: Config, edges: list[Edge], place: PlaceOf) -> Iterator[Problem]:
    """Cycles among entries that the file writes out, each list by itself.

    Default fallbacks are left out: two of them always name each other, and the router tries each
    group once per request.
    """
    for block in ("fallbacks", "context_window_fallbacks"):
        following: dict[str, list[Edge]] = {}
        for edge in edges:
            if edge.block == block:
                following.setdefault(edge.key, []).append(edge)
        closed: set[str] = set()
        for key in following:
            goal = config.aliases[key].group if key in config.aliases else key
            for way in _ways_back(following, key, goal):
                ring = frozenset(e.source for e in way)
                if not ring <= closed:
                    closed |= ring
                    yield _cycle(way, place)


def _ways_back(following: Mapping[str, list[Edge]], key: str, goal: str) -> Iterator[list[Edge]]:
    """The shortest way from a key over its fallbacks back to its own group, if there is one."""
    ways = [[edge] for edge in following[key]]
    seen: set[str] = set()
    while ways:
        way = ways.pop(0)
        here = way[-1].target
        if here == goal:
            yield way
            return
        if here not in seen:
            seen.add(here)
            ways += [[*way, edge] for edge in following.get(here, ())]


def _cycle(way: list[Edge], place: PlaceOf) -> Problem:
    ring = " -> ".join([way[0].key, *(e.target for e in way)])
    return Problem(
        place(located(way[-1].path, place)),
        "error",
        "fallback-cycle",
        f"{way[-1].block} go round in a circle: {ring}; take one of these entries out",
    )


def _window(edge: Edge, source: Members, target: Members, at: Place) -> Iterator[Problem]:
    ours, theirs = _largest(source), _largest(target)
    if ours is None or theirs is None:
        return
    if edge.block == "context_window_fallbacks" and theirs <= ours:
        yield Problem(
            at,
            "warning",
            "smaller-window",
            f"'{edge.key}' ({ours} tokens) hands prompts that are too long to '{edge.target}', "
            f"whose window is no larger ({theirs}); name a group with a larger one",
        )
    elif edge.block != "context_window_fallbacks" and theirs < ours:
        yield Problem(
            at,
            "warning",
            "smaller-window",
            f"'{edge.key}' ({ours} tokens) falls back to '{edge.target}', whose window is smaller "
            f"({theirs}): it is skipped for prompts that do not fit",
        )


def _largest(members: Members) -> int | None:
    """The window of a group: its members' largest; None where one does not say."""
    windows = [m.max_input_tokens for m in members]
    return None if None in windows else max(w for w in windows if w is not None)


def _modes(edge: Edge, source: Members, target: Members, at: Place) -> Iterator[Problem]:
    """An embedding group falls back to its own model or not at all.

    1. Both embed, with different models: vectors of two models cannot be compared.
    2. One embeds and the other does not: the entry never serves (implied defaults are no entry).
    """
    ours, theirs = {_kind(m) for m in source}, {_kind(m) for m in target}
    others = {m.served_name for m in target} - {m.served_name for m in source}
    if "embedding" in ours & theirs and others:
        yield Problem(
            at,
            "error",
            "embedding-fallback",
            f"embedding group '{edge.source}' falls back to another embedding model "
            f"({', '.join(sorted(others))} in '{edge.target}'): its vectors would not fit the "
            f"index; take the entry out" + _own_list(edge),
        )
    elif not ours & theirs and edge.block != "default_fallbacks":
        yield Problem(
            at,
            "warning",
            "fallback-mode",
            f"'{edge.key}' ({', '.join(sorted(ours))}) falls back to '{edge.target}' "
            f"({', '.join(sorted(theirs))}), which serves no such request; take the entry out",
        )


def _kind(member: Deployment) -> str:
    return "chat" if member.mode in TEXT_MODES else member.mode


def _own_list(edge: Edge) -> str:
    if edge.block != "default_fallbacks":
        return ""
    return f", or give '{edge.source}' a list of its own under fallbacks, if an empty one"


def _lane_fallback(edge: Edge, source: Members, target: Members, at: Place) -> Iterator[Problem]:
    ours, theirs = {m.lane for m in source} - {None}, {m.lane for m in target} - {None}
    if ours and theirs and ours != theirs:
        yield Problem(
            at,
            "error",
            "lanes-fallback",
            f"'{edge.source}' is of the {_lanes(ours)} lane and falls back to '{edge.target}' of "
            f"the {_lanes(theirs)} lane; the lanes stay apart: take the entry out"
            + _own_list(edge),
        )


def _lanes(lanes: Iterable[str | None]) -> str:
    return " and ".join(sorted(str(lane) for lane in lanes))


def _mixed(groups: Mapping[str, Members]) -> Iterator[Problem]:
    for group, members in groups.items():
        models = sorted({m.served_name for m in members if m.mode == "embedding"})
        if len(models) > 1:
            yield Problem(
                members[0].place,
                "warning",
                "embedding-mixed",
                f"embedding group '{group}' serves more than one model ({', '.join(models)}): "
                f"their vectors cannot be compared; give each model a group of its own, or serve "
                f"one model under one name",
            )
        lanes = {m.lane for m in members} - {None}
        if len(lanes) > 1:
            yield Problem(
                members[0].place,
                "error",
                "lanes-mixed",
                f"group '{group}' has members of the ingest and of the query lane; give each lane "
                f"a group of its own",
            )


def _lanes_apart(config: Config) -> Iterator[Problem]:
    first: dict[Upstream, Deployment] = {}
    for member in config.deployments:
        if member.lane is None:
            continue
        other = first.setdefault(member.upstream, member)
        if other.lane != member.lane:
            yield Problem(
                member.place,
                "error",
                "lanes-share-upstream",
                f"'{other.group}' ({other.lane} lane) and '{member.group}' ({member.lane} lane) "
                f"share upstream {member.upstream}: bulk work would hold queries up; serve one of "
                f"them elsewhere",
            )
