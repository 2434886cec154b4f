"""A launch as text: whole, and without secrets."""

from __future__ import annotations

import pytest

from serving.engines.engine import Launch
from serving.engines.render import masked, render


@pytest.mark.parametrize(
    "words",
    [
        ("serve", "--api-key", "s3cret"),
        ("serve", "--api-key=s3cret"),
        ("docker", "--env", "HF_TOKEN=s3cret"),
        ("x", "MY_PASSWORD=s3cret"),
        ("x", "--hf-token", "s3cret"),
    ],
)
def test_the_value_of_a_key_is_hidden_in_a_command(words: tuple[str, ...]) -> None:
    assert "s3cret" not in " ".join(masked(words))


@pytest.mark.parametrize(
    "words",
    [
        ("--max-num-batched-tokens", "8224"),
        ("MAX_TOKENS=512",),
        ("--tokenizer", "x"),
        ("--num-speculative-tokens=5",),
        ("--keyboard", "x"),
    ],
)
def test_numbers_of_tokens_are_no_secrets(words: tuple[str, ...]) -> None:
    assert masked(words) == words


def test_variables_that_look_like_secrets_are_hidden() -> None:
    launch = Launch(argv=("x",), env={"ENGINE_KEY": "s3cret", "PORT": "8000"}, port=8000, ctx=1)

    assert "ENGINE_KEY=(hidden)" in render(launch)
    assert "PORT=8000" in render(launch)
    assert "s3cret" not in render(launch) + repr(launch)
