"""Images that stay the same, and nothing secret in the file."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from common.problems import Problem
from serving.stacks.compose import Value
from serving.stacks.part import Part, Rule

_DIGEST: Final = re.compile(r"@sha256:[0-9a-f]{64}$")
# What a tag is built for says nothing about its release: cuda-12.4, cu126, py311, ubuntu22.04.
_BUILT_FOR: Final = re.compile(r"(cuda|cu|rocm|py|python|ubuntu|debian|sm)[-_]?\d[\d.]*")
_RELEASE: Final = re.compile(r"\d+\.\d+|\b[br]?\d{2,}\b|^v?\d+$|\b[0-9a-f]{7,40}\b")
_MOVING: Final = re.compile(r"\b(latest|main|master|edge|stable|dev)\b")
_SECRET_NAME: Final = re.compile(
    r"(^|_)(KEY|APIKEY|TOKEN|SECRET|PASSWORD|PASSWD)(_|$)|(API|ACCESS)_?KEY|_TOKEN$", re.IGNORECASE
)
_NOT_SECRET: Final = re.compile(r"_(FILE|PATH|LIMIT|COUNT|BUDGET|LENGTH|ID)$|MAX_|NUM_|^TOKENIZER")
_SECRET_VALUE: Final = re.compile(r"\b(sk-[\w-]{8,}|hf_\w{16,}|nvapi-\w+|gh[ps]_\w{16,})")
_BLANKS: Final = re.compile(
    r"|empty|none|null|dummy|true|false|\d{1,3}|changeme|change-me|replace-me"
    r"|your[-_ ].*|<.*>|x{3,}|not-?needed|no-?key(-required)?|n/?a|/.*",
    re.IGNORECASE,
)


def tag(part: Part) -> Iterator[Problem]:
    """A tag that will be another image tomorrow."""
    image = part.service.data.get("image")
    if not isinstance(image, str) or _built_elsewhere(part):
        return
    name, digest = image.partition("@")[::2]
    found = name.rpartition("/")[2].partition(":")[2]
    if digest or not part.serves:
        return
    if not found:
        said = f"the image {image} has no tag, which means latest: pin a release you have tested"
        yield part.service.problem("image-tag", said, "image")
    elif _MOVING.search(found) or not _RELEASE.search(_BUILT_FOR.sub("", found)):
        said = f"the tag `{found}` names no release, so it will be another image one day: pin one"
        said += " that you have tested, or a digest"
        yield part.service.problem("image-tag", said, "image")


def _built_elsewhere(part: Part) -> bool:
    """A name for what is built here; this project's own images carry its release all the same."""
    return "build" in part.service.data and not (part.gateway or part.query_lane)


def digest(part: Part) -> Iterator[Problem]:
    """In production a tag is not enough: a registry may move it."""
    image = str(part.service.data.get("image") or "")
    if part.production and image and not _DIGEST.search(image):
        said = f"a production file, and the image {image} has no digest: write IMAGE@sha256:..., as"
        said += " `docker image inspect` shows it under RepoDigests"
        yield part.service.problem("image-digest", said, "image")


def secret_in_environment(part: Part) -> Iterator[Problem]:
    """A key or a password that is written in the file, also as a variable's default."""
    for name, value in part.service.environment.items():
        by_name = _SECRET_NAME.search(name) and not _NOT_SECRET.search(name)
        if _literal(value) and (by_name or _SECRET_VALUE.search(value.raw)):
            said = f"{name} is written out: whoever reads the file has it; put it in an env_file"
            yield replace(part.service.problem("literal-secret", said), place=value.place)


def secret_in_arguments(part: Part) -> Iterator[Problem]:
    """A key among the arguments: anyone on the host reads it with ps."""
    launch = part.launch
    if launch is None:
        return
    key = launch.words.first("--api-key")
    path = "command" if "command" in part.service.data else "entrypoint"
    raw = _raw(part, path)
    if key and key in raw and not _BLANKS.fullmatch(key) and "$" not in key:
        said = "--api-key is written out: whoever reads the file has it; put it in an env_file"
        yield part.service.problem("literal-secret", said, path)
    elif key and launch.engine.key_variable and not _BLANKS.fullmatch(key):
        said = f"--api-key shows in `ps` and `docker inspect`: {launch.engine.name} also takes"
        said += f" {launch.engine.key_variable} from an env_file"
        yield part.service.problem("secret-argument", said, path)


def privileged(part: Part) -> Iterator[Problem]:
    """An engine needs GPUs, not the host."""
    if part.launch and part.service.data.get("privileged") is True:
        said = "privileged: true hands it the whole host; GPUs come by `devices`"
        yield part.service.problem("privileged", said, "privileged")


def _literal(value: Value) -> bool:
    """True if the file itself holds the value: not a variable's, not a stand-in for none."""
    if value.from_file or value.value is None:
        return False
    default = re.fullmatch(r"\$\{\w+:?-(.*)\}", value.raw)
    written = default[1] if default else value.raw
    return "$" not in written and not _BLANKS.fullmatch(written.strip())


def _raw(part: Part, path: str) -> str:
    source, own = part.service.source, part.service.path
    texts = (t for p, t in source.texts.items() if p[: len(own) + 1] == (*own, path))
    return re.sub(r"\$\{\w+(?::?-([^}]*))?[^}]*\}|\$\w+", r"\1", " ".join(texts))


RULES: Final[tuple[Rule, ...]] = (
    tag,
    digest,
    secret_in_environment,
    secret_in_arguments,
    privileged,
)
