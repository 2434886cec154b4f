"""Causal embedding models of the Qwen3-Embedding family, in torch: the last token's vector.

The only file that imports torch and transformers, and not before a model is loaded.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from serving.artifacts.packaged import ModelError
from serving.embeddings.encoder import Row, Step, Traits, Vectors, normalised
from serving.embeddings.processor import Dtype, dtype_for, flags
from serving.embeddings.tokens import frame_of

FAMILY = "qwen3"
# With so many tokens behind it, a token costs twice as much as the first (0.6B: measured 1600 to
# 2000), and in parts below this, weights are read more often than they are used.
_TWICE_AT = 1640
_LEAST_STEP = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class CausalEncoder:
    """A loaded model. `traits` are what was asked for, completed by what the files say."""

    traits: Traits
    tokenizer: Tokenizer
    torch: Any
    model: Any

    def encode(self, rows: Sequence[Row]) -> Vectors:
        """One pass: padded on the left, so that position -1 is the terminal token of every row."""
        torch = self.torch
        longest = max(map(len, rows))
        ids = torch.tensor([[0] * (longest - len(row)) + list(row) for row in rows])
        # From the lengths, never from the ids: the padding token is a real token elsewhere.
        mask = torch.tensor([[0] * (longest - len(row)) + [1] * len(row) for row in rows])
        # Counted from each row's first real token: a row's vector must not depend on its company.
        positions = (mask.cumsum(-1) - 1).clamp(min=0)
        padded = any(len(row) < longest for row in rows)
        with torch.inference_mode():
            hidden = self.model(
                input_ids=ids,
                attention_mask=mask if padded else None,
                position_ids=positions,
                use_cache=False,
            ).last_hidden_state
            return _vectors(hidden)

    def steps(self, row: Row, step_tokens: int) -> Iterator[Step]:
        """A long row part by part: attention looks back only, so keys and values can be kept.

        Parts become shorter as more lies behind them, since each token then looks at more: no part
        takes much longer than the first.
        """
        from transformers import DynamicCache

        torch, cache = self.torch, DynamicCache()
        start = 0
        while start < len(row):
            size = max(_LEAST_STEP, step_tokens * _TWICE_AT // (_TWICE_AT + start))
            part = list(row[start : start + size])
            # Around each part and not around the loop: other passes run between them.
            with torch.inference_mode():
                hidden = self.model(
                    input_ids=torch.tensor([part]),
                    position_ids=torch.arange(start, start + len(part))[None],
                    past_key_values=cache,
                    use_cache=True,
                ).last_hidden_state
            start += len(part)
            yield Step(tokens=len(part), vectors=_vectors(hidden) if start == len(row) else None)


def _vectors(hidden: Any) -> Vectors:
    return normalised(hidden[:, -1].float().numpy())


def load(folder: Path, traits: Traits, dtype: Dtype | None) -> CausalEncoder:
    """Load the weights in `folder`; nothing is fetched. Raises ModelError in one line."""
    config = _read(folder / "config.json")
    _check(folder, config)
    try:
        import torch
        from transformers import AutoModel
    except ImportError as error:
        raise ModelError(f"{error}: install the extra embed-torch") from error
    torch.set_num_threads(traits.threads)
    chosen = dtype or _stored_or_float32(config)
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    _check_terminal(folder, tokenizer)
    try:
        model = AutoModel.from_pretrained(
            folder, dtype=getattr(torch, chosen), local_files_only=True, attn_implementation="sdpa"
        ).eval()
    except (OSError, ValueError, RuntimeError) as error:
        raise ModelError(f"cannot load {folder}: {str(error).splitlines()[0]}") from error
    limit = min(traits.max_tokens, int(config["max_position_embeddings"]))
    return CausalEncoder(
        traits=replace(
            traits, dimensions=int(config["hidden_size"]), max_tokens=limit, dtype=chosen
        ),
        tokenizer=tokenizer,
        torch=torch,
        model=model,
    )


def _stored_or_float32(config: dict[str, Any]) -> Dtype:
    """Weights that are float32 stay so; bfloat16 only where the processor has it."""
    stored = config.get("dtype") or config.get("torch_dtype")
    return dtype_for(flags()) if stored == "bfloat16" else "float32"


def _read(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ModelError(f"cannot read {path}: {error}") from error
    if not isinstance(found, dict):
        raise ModelError(f"{path} is not a JSON object")
    return found


def _check(folder: Path, config: dict[str, Any]) -> None:
    """Refuse a model that this contract would compute wrongly, with vectors of the right shape."""
    if config.get("model_type") != FAMILY:
        raise ModelError(
            f"{folder} is a model of type '{config.get('model_type')}'; this lane serves {FAMILY}"
        )
    pooling = folder / "1_Pooling" / "config.json"
    if pooling.exists() and not _is_last_token(_read(pooling)):
        raise ModelError(f"{pooling} asks for another pooling than the last token's")


def _is_last_token(pooling: dict[str, Any]) -> bool:
    """Older files have a flag for each mode, newer ones its name."""
    return bool(pooling.get("pooling_mode_lasttoken")) or pooling.get("pooling_mode") == "lasttoken"


def _check_terminal(folder: Path, tokenizer: Tokenizer) -> None:
    closing = frame_of(tokenizer).closing
    if len(closing) != 1:
        raise ModelError(
            f"the tokenizer in {folder} adds {len(closing)} terminal tokens and must add one: take "
            "a newer copy of the model (early ones lacked the post-processor)"
        )
