"""Vectors -> the JSON of an answer. No I/O."""

from __future__ import annotations

import base64
from typing import Any

import msgspec
import numpy as np

from serving.embeddings.encoder import Vectors, normalised
from serving.embeddings.request import Request


def render(request: Request, vectors: Vectors, *, model: str, prompt_tokens: int) -> bytes:
    """OpenAI's list of embeddings, in the order of the inputs."""
    shown = vectors
    if request.dimensions is not None:
        # A part of a unit vector is shorter than one: cosines would still be right, dot products
        # would not.
        shown = normalised(vectors[:, : request.dimensions])
    data = [
        {"object": "embedding", "index": index, "embedding": _spelled(vector, request)}
        for index, vector in enumerate(shown)
    ]
    usage = {"prompt_tokens": prompt_tokens, "total_tokens": prompt_tokens}
    return msgspec.json.encode({"object": "list", "data": data, "model": model, "usage": usage})


def _spelled(vector: Vectors, request: Request) -> Any:
    """Base64 of little-endian float32, as OpenAI's clients read it, or numbers."""
    if request.base64:
        return base64.b64encode(vector.astype("<f4").tobytes()).decode("ascii")
    return vector.astype(np.float64).tolist()
