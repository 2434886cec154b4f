"""GLOSSARY.md holds: its forbidden words stand nowhere in code, configuration or docs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.ground import repository
from tests.ground.repository import ROOT

GLOSSARY = ROOT / "GLOSSARY.md"

# Foreign names that are spelled as their owners spell them: file -> words, each with its reason.
FOREIGN: dict[str, frozenset[str]] = {
    "gateway/errors.py": frozenset({"unsupported_endpoint"}),  # a stable code, as clients know it
    # LiteLLM's way to name a callback: module.instance
    "gateway/config/schema.py": frozenset({"instance"}),
    "gateway/config/callbacks.py": frozenset({"instance"}),
    "gateway/config/rules.py": frozenset({"instance"}),
    "gateway/config/refused.py": frozenset(  # the body names that redirect a request
        {"aws_bedrock_runtime_endpoint", "aws_sts_endpoint", "s3_endpoint_url"}
    ),
    "gateway/config/params.py": frozenset({"guided_decoding_backend"}),  # an engine's own parameter
    "serving/recipes/schema.py": frozenset({"moe_backend"}),  # the recipe format's own field
    "compose/sglang-glm.yaml": frozenset({"backend"}),  # SGLang's flags
    "serving/embeddings/app.py": frozenset({"ThreadPoolExecutor"}),  # Python's own
    "serving/embeddings/lane.py": frozenset({"ThreadPoolExecutor"}),
    "serving/embedded/engine.py": frozenset({"endpoint_metrics", "endpoint_slots"}),  # llama.cpp's
}

# LiteLLM's words, as data or quoted in messages about LiteLLM's keys; the build tool's own key.
NOT_OURS = re.compile(
    r"litellm_keys\.json$|^tests/|^pyproject\.toml$|^requirements/|^GLOSSARY\.md$|^bench/|^tools/"
    r"|^config\.schema\.json$|^design-decisions/010-"
)


def forbidden() -> tuple[str, ...]:
    """The words that the glossary's last column sets in code."""
    rows = [line for line in GLOSSARY.read_text().splitlines() if line.startswith("| ")]
    return tuple(word for row in rows for word in re.findall(r"`([^`]+)`", row.split("|")[3]))


def words_of_ours() -> tuple[str, ...]:
    rows = [line for line in GLOSSARY.read_text().splitlines() if line.startswith("| ")]
    return tuple(row.split("|")[1].strip() for row in rows)


def uses(text: str, word: str) -> set[str]:
    """The names in `text` that contain `word` as a whole part: backend, backend_url, BackendUrl."""
    part = re.escape(word)
    camel = re.escape(word.title().replace(" ", ""))
    text = re.sub(r"(?i)\bfor instance\b", "", text)
    plain = rf"(?<![A-Za-z])(?:\w*_)?{part}(?:e?s)?(?:_\w*)?(?![A-Za-z])"
    found = {match[0] for match in re.finditer(plain, text, re.IGNORECASE)}
    found |= {m[0] for m in re.finditer(rf"\b\w*{camel}(?:s|[A-Z]\w*)?\b", text)}
    return found


def test_the_glossary_forbids_something() -> None:
    assert {"backend", "endpoint", "pool", "ban"} <= set(forbidden())


def test_no_word_is_both_ours_and_forbidden() -> None:
    assert not set(words_of_ours()) & set(forbidden())


def test_each_word_is_explained_once() -> None:
    words = [word for word in words_of_ours() if word not in ("word", "---")]

    assert len(words) == len(set(words))


@pytest.mark.parametrize(
    "text", ["a backend", "backend_url", "my_backends", "BackendUrl", "Backend"]
)
def test_a_forbidden_word_is_found_inside_names(text: str) -> None:
    assert uses(text, "backend")


@pytest.mark.parametrize("text", ["urban", "banner", "isinstance(x, y)", "spool", "whirlpools"])
def test_a_word_that_only_looks_alike_is_no_use(text: str) -> None:
    assert not any(uses(text, word) for word in forbidden())


def test_no_forbidden_word_stands_in_code_configuration_or_docs() -> None:
    found: list[str] = []
    for path in repository.files(".py", ".md", ".yaml", ".toml"):
        name = repository.name(path)
        if not NOT_OURS.search(name):
            found += [f"{name}: {use}" for use in sorted(_all_uses(path, name))]

    assert not found


def _all_uses(path: Path, name: str) -> set[str]:
    text = path.read_text(encoding="utf-8")
    return {use for word in forbidden() for use in uses(text, word)} - FOREIGN.get(
        name, frozenset()
    )
