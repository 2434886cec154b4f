"""The model served by sentence-transformers, and in every wrong way that was seen, on one port.

A program of its own, in the venv that has torch: `other_servers.py FOLDER PORT`, then
POST /WAY/v1/embeddings, with WAY `reference`, `query` (its prompt before the text) or one of WRONG.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import torch
import uvicorn
from sentence_transformers import SentenceTransformer
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from tokenizers import Tokenizer
from transformers import AutoModel

Rows = list[list[int]]


class Wrong:
    """The same weights, computed in the ways that were seen in the wild."""

    def __init__(self, folder: str) -> None:
        self.model = AutoModel.from_pretrained(folder, dtype=torch.float32).eval()
        self.tokenizer = Tokenizer.from_file(f"{folder}/tokenizer.json")

    def rows(self, texts: list[str], terminal: int = 1) -> Rows:
        """Ids with the terminal token so many times."""
        bare = [self.tokenizer.encode(text, add_special_tokens=False).ids for text in texts]
        return [row + [0] * terminal for row in bare]

    def hidden(
        self, rows: Rows, *, left: bool = True, masked: bool = True, placed: bool = True
    ) -> tuple[Any, Any]:
        """States and mask of a padded batch."""
        most = max(map(len, rows))
        pads = [[0] * (most - len(row)) for row in rows]
        ids = [pad + row if left else row + pad for pad, row in zip(pads, rows, strict=True)]
        real = [[1] * len(row) for row in rows]
        bits = [pad + one if left else one + pad for pad, one in zip(pads, real, strict=True)]
        mask = torch.tensor(bits)
        positions = (mask.cumsum(-1) - 1).clamp(min=0) if placed else torch.arange(most)[None]
        with torch.inference_mode():
            states = self.model(
                input_ids=torch.tensor(ids),
                attention_mask=mask if masked else None,
                position_ids=positions.expand(len(rows), -1),
            ).last_hidden_state
        return states, mask


def unit(vectors: Any) -> Any:
    return torch.nn.functional.normalize(vectors, dim=-1)


def mean(states: Any, mask: Any) -> Any:
    return (states * mask[..., None]).sum(1) / mask.sum(1, keepdim=True)


def ways(wrong: Wrong) -> dict[str, Callable[[list[str]], Any]]:
    """Each wrong way by name: texts -> vectors of the right shape."""
    rows, hidden = wrong.rows, wrong.hidden
    return {
        "mean": lambda texts: unit(mean(*hidden(rows(texts)))),
        "mean-right": lambda texts: unit(mean(*hidden(rows(texts), left=False))),
        # Positions that stand still over the padding would hide it: the padding token is the
        # terminal token, and would be computed a second time in the same place.
        "right-naive": lambda texts: unit(hidden(rows(texts), left=False, placed=False)[0][:, -1]),
        "first": lambda texts: unit(hidden(rows(texts), left=False)[0][:, 0]),
        "no-mask": lambda texts: unit(hidden(rows(texts), masked=False)[0][:, -1]),
        # Rotary positions are relative: counting the padding shifts all of them alike and leaves
        # this family's vectors as they are. Without it in the mask too, they are not.
        "no-mask-no-positions": lambda texts: unit(
            hidden(rows(texts), masked=False, placed=False)[0][:, -1]
        ),
        "no-terminal": lambda texts: unit(hidden(rows(texts, 0))[0][:, -1]),
        "double-terminal": lambda texts: unit(hidden(rows(texts, 2))[0][:, -1]),
        "prompted": lambda texts: unit(
            hidden(rows([f"Instruct: Retrieve\nQuery:{text}" for text in texts]))[0][:, -1]
        ),
        "not-normalised": lambda texts: hidden(rows(texts))[0][:, -1],
        "cut-not-normalised": lambda texts: unit(hidden(rows(texts))[0][:, -1])[:, :32],
        "backwards": lambda texts: unit(hidden(rows(texts))[0][:, -1]).flip(0),
    }


def app(folder: str) -> Starlette:
    right = SentenceTransformer(folder, device="cpu")
    wrong = Wrong(folder)
    by_way = ways(wrong)
    by_way["reference"] = lambda texts: right.encode(texts, convert_to_tensor=True)
    by_way["query"] = lambda texts: right.encode(texts, prompt_name="query", convert_to_tensor=True)

    async def embeddings(request: Request) -> Response:
        body = await request.json()
        texts = [body["input"]] if isinstance(body["input"], str) else body["input"]
        right.max_seq_length = body.get("max_seq_length", 1024)
        vectors = by_way[request.path_params["way"]](texts).double().tolist()
        data = [
            {"object": "embedding", "index": index, "embedding": vector}
            for index, vector in enumerate(vectors)
        ]
        terminal = {"no-terminal": 0, "double-terminal": 2}.get(request.path_params["way"], 1)
        tokens = sum(map(len, wrong.rows(texts, terminal)))
        return JSONResponse({"data": data, "usage": {"prompt_tokens": tokens}})

    async def health(_: Request) -> Response:
        return JSONResponse({"ways": sorted(by_way)})

    return Starlette(
        routes=[
            Route("/health", health),
            Route("/{way}/v1/embeddings", embeddings, methods=["POST"]),
            Route("/{way}/v1/models", lambda _: JSONResponse({"data": [{"id": "tiny"}]})),
        ]
    )


if __name__ == "__main__":
    torch.set_num_threads(1)
    uvicorn.run(app(sys.argv[1]), host="127.0.0.1", port=int(sys.argv[2]), log_level="warning")
