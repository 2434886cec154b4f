"""Who may call: the master key and the clients' keys. No message here shows a key."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from common.problems import Problem
from common.source import Path, Source
from gateway.config import known, schema, shapes
from gateway.config.config import ClientKey
from gateway.config.env import PREFIX, Resolved
from gateway.config.names import Names

# Keys of tutorials, examples and templates: whoever has read them has the key.
SAMPLES: Final = frozenset(
    {"sk-1234", "sk-12345", "sk-123456", "sk-1234567890", "sk-master", "sk-litellm", "sk-test"}
    | {"sk-master-key", "sk-my-master-key", "sk-litellm-master-key", "sk-your-key", "sk-key"}
    | {"sk-change-me", "sk-changeme", "changeme", "change-me", "your-master-key", "master-key"}
    | {"secret", "password", "admin", "test", "1234", "12345678", "sk-xxx", "sk-xxxx", "xxx"}
    | {"sk-example", "sk-secret", "sk-password", "sk-admin", "sk-local", "sk-dummy", "sk-none"}
)
SHORTEST: Final = 12

_MASTER: Final[Path] = ("general_settings", "master_key")


def master_key(
    source: Source, resolved: Resolved, value: str | None
) -> tuple[str | None, list[Problem]]:
    """The operator's key, where it is one that can be trusted."""
    if value is None:
        return None, []
    problems = list(weak(source, resolved, _MASTER, value, "the master key"))
    return (None if _MASTER in resolved.unset else value), problems


def no_keys(source: Source) -> Problem:
    """The warning for a file in which nobody has a key."""
    at = source.place(("general_settings",))
    said = (
        f"there is no key: `gateway serve` starts only with --insecure, on loopback; write"
        f" general_settings.master_key: {PREFIX}NAME"
    )
    return Problem(at, "warning", "no-keys", said)


def client_keys(names: Names, resolved: Resolved, master: str | None) -> tuple[ClientKey, ...]:
    """Every client whose key and grants could be read."""
    source = names.source
    given = _given(resolved)
    if given is not None and not isinstance(given, list):
        path: Path = ("gateway_settings", "client_keys")
        said = f"`client_keys` must be a list of {{name: ..., key: {PREFIX}NAME}}"
        names.error(path, "wrong-type", said)
        return ()
    found: list[ClientKey] = []
    for i, data in enumerate(given or ()):
        path = ("gateway_settings", "client_keys", i)
        block, problems = shapes.fit(schema.Client, data, path, source=source, resolved=resolved)
        names.problems += problems
        if block is not None:
            found.append(_client(names, path, block, whole=not problems))
            names.problems += _key_faults(names, resolved, path, found, master)
    return tuple(found)


def _given(resolved: Resolved) -> Any:
    settings = resolved.data.get("gateway_settings")
    return settings.get("client_keys") if isinstance(settings, dict) else None


def _key_faults(
    names: Names, resolved: Resolved, path: Path, found: list[ClientKey], master: str | None
) -> Iterator[Problem]:
    """What is wrong with the newest client's name and key."""
    at, (*before, client) = (*path, "key"), found
    who = f"the key of client '{client.name}'"
    yield from weak(names.source, resolved, at, client.key, who)
    for other in before:
        if other.name == client.name:
            said = f"client '{client.name}' is here twice: records could not tell them apart"
            yield Problem(names.source.value((*path, "name")), "error", "duplicate-client", said)
        if other.key == client.key:
            said = f"{who} has the value of client '{other.name}': nobody could tell who is calling"
            yield Problem(names.source.value(at), "error", "same-key", said)
    if master == client.key:
        said = f"{who} has the value of the master key: it would open everything"
        yield Problem(names.source.value(at), "error", "same-key", said)


def _client(names: Names, path: Path, block: schema.Client, *, whole: bool) -> ClientKey:
    if "burst" in block.tiers:
        said = f"client '{block.name}' may send work to the burst tier itself, past every fallback"
        names.warning((*path, "tiers"), "burst-granted", said)
    if whole and not (block.tiers or block.models or block.admin):
        said = f"the key of client '{block.name}' opens nothing: give it tiers, models, or admin"
        names.error(path, "empty-grant", said)
    return ClientKey(
        name=block.name,
        key=block.key,
        tiers=frozenset(block.tiers),
        models=frozenset(_models(names, path, block)),
        admin=block.admin,
    )


def _models(names: Names, path: Path, block: schema.Client) -> Iterator[str]:
    """Names as clients send them: a task is granted as task/NAME, however it is written."""
    for i, name in enumerate(block.models):
        here = (*path, "models", i)
        if name in names.groups or name in names.aliases:
            yield name
        elif name.removeprefix("task/") in names.tasks:
            yield f"task/{name.removeprefix('task/')}"
        elif name not in names.hidden_groups:
            there = {*names.groups, *names.aliases, *(f"task/{task}" for task in names.tasks)}
            near = known.did_you_mean(name, there)
            said = f"client '{block.name}' is granted '{name}', which is not defined{near}"
            names.error(here, "unknown-grant", said)


def weak(source: Source, resolved: Resolved, at: Path, value: str, who: str) -> Iterator[Problem]:
    """What is wrong with a secret: written out, known to all, or short."""
    if at in resolved.unset:
        return
    if at not in resolved.variables:
        said = f"{who} is written out: whoever reads the file has it; write {PREFIX}NAME"
        yield Problem(source.value(at), "error", "literal-key", said)
    if value.lower() in SAMPLES:
        said = f"{who} is one that every tutorial shows: make one: openssl rand -hex 24"
        yield Problem(source.value(at), "error", "sample-key", said)
    elif len(value) < SHORTEST:
        said = f"{who} has {len(value)} characters: make it {SHORTEST} or more"
        yield Problem(source.value(at), "warning", "short-key", said)
