"""Options of a command line as data: read one, set one. Pure."""

from __future__ import annotations

from collections.abc import Sequence


def value_of(args: Sequence[str], *names: str) -> str | None:
    """The value of the last of these options, `--port 8000` or `--port=8000`; None without one."""
    found = None
    for i, arg in enumerate(args):
        name, equals, rest = arg.partition("=")
        if arg in names and i + 1 < len(args):
            found = args[i + 1]
        elif equals and name in names and name.startswith("--"):
            found = rest
    return found


def without(args: Sequence[str], *names: str) -> tuple[str, ...]:
    """The arguments without these options and their values."""
    kept: list[str] = []
    value = False
    for arg in args:
        if value:
            value = False
        elif arg in names:
            value = True
        elif arg.partition("=")[0] not in names:
            kept.append(arg)
    return tuple(kept)


def with_option(
    args: Sequence[str], names: Sequence[str], value: str | int | None
) -> tuple[str, ...]:
    """The arguments with the option set to `value`, where it stands or at the end.

    None leaves them as they are.
    """
    if value is None:
        return tuple(args)
    if value_of(args, *names) is None:
        return (*args, names[0], str(value))
    done: list[str] = []
    follows = False
    for arg in args:
        name, equals, _ = arg.partition("=")
        if follows:
            done.append(str(value))
        else:
            done.append(f"{name}={value}" if equals and name in names else arg)
        follows = arg in names and not follows
    return tuple(done)
