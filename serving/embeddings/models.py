"""The models that can be named, as rows, and how a name becomes a loaded one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from serving.artifacts.packaged import ModelError, cache_dir
from serving.embeddings import causal, minilm
from serving.embeddings.encoder import Encoder, Traits
from serving.embeddings.processor import Dtype

# The shipped setting. A text of 8192 tokens needs 4.8 GB in float32, weights and all, of the lane's
# 8 GB; but it takes minutes on a CPU, and its last parts take longer than a pass does. The model
# could take 32768: such texts are the ingest lane's.
QWEN3 = Traits(
    name="Qwen3-Embedding-0.6B",
    dimensions=1024,
    max_tokens=4096,
    pass_tokens=256,  # larger ones are no faster for each token, and hold up others for longer
    waiting_tokens=16384,
    smallest_cut=32,
)
QWEN3_REPOSITORY = "Qwen/Qwen3-Embedding-0.6B"
MINILM = Traits(
    name="all-MiniLM-L6-v2",
    dimensions=384,
    max_tokens=256,
    pass_tokens=512,
    waiting_tokens=131072,
    dtype="int8 weights",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What the command line says of the model; None leaves it to the model's row."""

    model: str  # minilm, qwen3 or a folder
    served_name: str | None = None
    threads: int = 4
    dtype: Dtype | None = None
    max_tokens: int | None = None
    pass_tokens: int | None = None
    waiting_tokens: int | None = None
    smallest_cut: int | None = None

    def traits(self, row: Traits) -> Traits:
        """The row with what was said put over it."""
        said: dict[str, Any] = {
            "name": self.served_name,
            "max_tokens": self.max_tokens,
            "pass_tokens": self.pass_tokens,
            "waiting_tokens": self.waiting_tokens,
            "smallest_cut": self.smallest_cut,
        }
        given = {name: value for name, value in said.items() if value is not None}
        return replace(row, threads=self.threads, **given)


def loader(wanted: Wanted) -> Callable[[], Encoder]:
    """What loads the model, for a thread to call; ModelError at once for a name that is none."""
    if wanted.model == "minilm":
        traits = _within_one_pass(wanted.traits(MINILM))
        return lambda: minilm.load(cache_dir(), traits)
    if wanted.model == "qwen3":
        return lambda: causal.load(_fetched(), wanted.traits(QWEN3), wanted.dtype)
    folder = Path(wanted.model).expanduser()
    if not (folder / "config.json").is_file():
        raise ModelError(
            f"{wanted.model} is neither `minilm`, `qwen3` nor a folder with a config.json"
        )
    row = replace(QWEN3, name=folder.resolve().name, smallest_cut=None)
    return lambda: causal.load(folder, wanted.traits(row), wanted.dtype)


def _within_one_pass(traits: Traits) -> Traits:
    return replace(traits, max_tokens=min(traits.max_tokens, traits.pass_tokens, MINILM.max_tokens))


def _fetched() -> Path:
    """The weights of the shipped setting in Hugging Face's cache, fetched if they are missing."""
    try:
        from huggingface_hub import snapshot_download
        from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError
    except ImportError as error:
        raise ModelError(f"{error}: install the extra embed-torch") from error
    try:
        return Path(snapshot_download(QWEN3_REPOSITORY))
    except (OSError, ValueError, HfHubHTTPError, LocalEntryNotFoundError) as error:
        raise ModelError(
            f"cannot fetch {QWEN3_REPOSITORY}: {str(error).splitlines()[0]}; without a network, "
            "name a folder: --model PATH"
        ) from error
