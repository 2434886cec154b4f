"""Asking one server, as any OpenAI client would. The only file of the gate that does I/O."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import httpx
import numpy as np

from serving.embeddings.encoder import Vectors
from serving.errors import Unusable

TIMEOUT_S = 300.0  # a long text on a busy processor


@dataclass(frozen=True, slots=True, kw_only=True)
class Party:
    """One server: its base URL with /v1, and how to ask it."""

    url: str
    model: str | None = None
    key: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What one request gave: the vectors as sent, where each said it belongs, tokens counted."""

    vectors: Vectors
    indexes: tuple[int, ...]
    prompt_tokens: int | None


class Asker:
    """Asks one party over one client. Raises Unusable where it does not answer as it must."""

    def __init__(self, client: httpx.AsyncClient, party: Party) -> None:
        self._client = client
        self._party = party
        self._headers = {} if party.key is None else {"Authorization": f"Bearer {party.key}"}
        self._base = party.url.rstrip("/")
        self._model = party.model

    async def embed(self, texts: Sequence[str]) -> Answer:
        """The vectors of `texts`, from one request."""
        if self._model is None:
            listed = await self._json("GET", "/models", None)
            self._model = str(listed["data"][0]["id"])
        given = {"model": self._model, "input": list(texts), "encoding_format": "float"}
        found = await self._json("POST", "/embeddings", given)
        try:
            rows = found["data"]
            vectors = np.array([row["embedding"] for row in rows], dtype=np.float32)
            indexes = tuple(int(row["index"]) for row in rows)
        except (KeyError, TypeError, ValueError) as error:
            raise Unusable(f"{self._base} does not answer with embeddings: {error!r}") from error
        if vectors.ndim != 2 or len(vectors) != len(texts):
            raise Unusable(f"{self._base} answered {len(rows)} vectors to {len(texts)} texts")
        usage = found.get("usage") or {}
        return Answer(vectors=vectors, indexes=indexes, prompt_tokens=usage.get("prompt_tokens"))

    async def _json(self, method: str, path: str, body: object) -> dict[str, Any]:
        url = self._base + path
        try:
            answer = await self._client.request(method, url, json=body, headers=self._headers)
            found: dict[str, Any] = answer.json()
        except httpx.HTTPError as error:
            raise Unusable(
                f"{url} does not answer: {str(error) or type(error).__name__}"
            ) from error
        except ValueError as error:
            raise Unusable(f"{url} does not answer with JSON") from error
        if answer.status_code != 200:
            raise Unusable(f"{url} answered {answer.status_code}: {str(found)[:300]}")
        return found
