"""The HTTP face of the lane: a Starlette app.

GET  /health          503 until the model is loaded, then 200 with what it is and the bound
GET  /metrics         Prometheus
GET  /v1/models       the one model there is
POST /v1/embeddings   in order: the key, ready, the size, the body, the rows, the lane, the answer
"""

from __future__ import annotations

import asyncio
import hmac
from collections.abc import Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from starlette.applications import Starlette
from starlette.requests import ClientDisconnect
from starlette.requests import Request as HttpRequest
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from serving.embeddings import answer, request
from serving.embeddings.encoder import Encoder, Vectors
from serving.embeddings.lane import Lane
from serving.embeddings.metrics import Metrics
from serving.embeddings.refusals import BadKey, NotReady, Refusal, TooLarge
from serving.embeddings.share import seen
from serving.embeddings.tokens import RowMaker

_LOADING_S = 5  # Retry-After while the model loads
GONE = 499  # nobody reads it: the client has left


class ClientGone(Exception):
    """The client closed its connection before its answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What one request may bring."""

    body_bytes: int = 4 << 20
    inputs: int = 2048  # OpenAI's
    truncate: bool = False  # cut what is too long, instead of refusing it


@dataclass(frozen=True, slots=True)
class Loaded:
    """A model that serves."""

    lane: Lane
    rows: RowMaker


class Server:
    """The app and what it stands on; `become_ready` is called once the model is there."""

    def __init__(self, limits: Limits, *, key: str | None = None) -> None:
        self._limits = limits
        self._key = key
        self._loaded: Loaded | None = None
        # Two threads: a long text that is being split into tokens does not hold up a short one.
        self._splitters = ThreadPoolExecutor(2, thread_name_prefix="tokens")
        self.metrics = Metrics()
        self.app = Starlette(
            routes=[
                Route("/health", self._health),
                Route("/metrics", self._metrics_page),
                Route("/v1/models", self._models),
                Route("/v1/embeddings", self._embeddings, methods=["POST"]),
                Route("/embeddings", self._embeddings, methods=["POST"]),
            ]
        )

    async def become_ready(self, encoder: Encoder) -> Lane:
        """Warm the model up and serve it; the caller runs the lane."""
        lane = Lane(encoder, self.metrics)
        rows = RowMaker(encoder.tokenizer, encoder.traits.max_tokens)
        await lane.warm_up()
        self.metrics.gauge("waiting_tokens", "Not computed yet", lambda: lane.waiting_tokens)
        self._loaded = Loaded(lane, rows)
        return lane

    def close(self) -> None:
        """End the threads that split text."""
        self._splitters.shutdown(wait=False, cancel_futures=True)

    async def _health(self, _: HttpRequest) -> Response:
        if self._loaded is None:
            return JSONResponse({"status": "loading"}, 503, {"Retry-After": str(_LOADING_S)})
        lane, traits, share = self._loaded.lane, self._loaded.lane.traits, seen()
        return JSONResponse(
            {
                "status": "ok",
                "model": traits.name,
                "dimensions": traits.dimensions,
                "max_tokens": traits.max_tokens,
                "dtype": traits.dtype,
                "threads": traits.threads,
                "priority": share.priority,
                "cores": len(share.cores),
                "waiting_tokens": lane.waiting_tokens,
                "waiting_tokens_limit": traits.waiting_tokens,
                "pass_ms": round(lane.pass_s * 1000, 1),
                # passes.py says why it is two.
                "held_up_ms_at_most": round(2 * lane.pass_s * 1000, 1),
            }
        )

    async def _metrics_page(self, _: HttpRequest) -> Response:
        return Response(self.metrics.text(), media_type="text/plain; version=0.0.4")

    async def _models(self, http: HttpRequest) -> Response:
        try:
            self._check_key(http)
            traits = self._ready().lane.traits
        except Refusal as refusal:
            return _refused(refusal)
        entry = {"id": traits.name, "object": "model", "max_model_len": traits.max_tokens}
        return JSONResponse({"object": "list", "data": [entry | {"owned_by": "embeddings"}]})

    async def _embeddings(self, http: HttpRequest) -> Response:
        try:
            self._check_key(http)
            loaded = self._ready()
            body = await self._read(http)
            response = await _unless_gone(http, self._embedded(loaded, body))
        except Refusal as refusal:
            self.metrics.ended(refusal.code)
            return _refused(refusal)
        except (ClientGone, ClientDisconnect):
            self.metrics.ended("gone")
            return Response(status_code=GONE)
        self.metrics.ended("ok")
        return response

    async def _embedded(self, loaded: Loaded, body: bytes) -> Response:
        traits = loaded.lane.traits
        asked = request.parse(
            body, traits, max_inputs=self._limits.inputs, truncate=self._limits.truncate
        )
        loop = asyncio.get_running_loop()
        rows = await loop.run_in_executor(
            self._splitters, loaded.rows.rows, asked.inputs, asked.cut_to
        )
        vectors = await loaded.lane.embed(rows)
        self.metrics.answered(len(rows))
        text = await loop.run_in_executor(
            self._splitters, _rendered, asked, vectors, traits.name, rows
        )
        return Response(text, media_type="application/json")

    def _check_key(self, http: HttpRequest) -> None:
        if self._key is None:
            return
        given = http.headers.get("authorization", "").removeprefix("Bearer ")
        if not hmac.compare_digest(given.encode(), self._key.encode()):
            raise BadKey("the key is missing or not this server's")

    def _ready(self) -> Loaded:
        if self._loaded is None:
            raise NotReady("the model is still loading", retry_after_s=_LOADING_S)
        return self._loaded

    async def _read(self, http: HttpRequest) -> bytes:
        """The body, bounded: what is too large is refused without reading the rest."""
        most = self._limits.body_bytes
        parts: list[bytes] = []
        size = 0
        async for part in http.stream():
            size += len(part)
            if size > most:
                raise TooLarge(
                    f"the body is above {most} bytes; one request may bring that much, in "
                    f"{self._limits.inputs} inputs: send it in parts"
                )
            parts.append(part)
        return b"".join(parts)


def _rendered(
    asked: request.Request, vectors: Vectors, model: str, rows: Sequence[Sequence[int]]
) -> bytes:
    return answer.render(asked, vectors, model=model, prompt_tokens=sum(map(len, rows)))


async def _unless_gone(http: HttpRequest, work: Coroutine[Any, Any, Response]) -> Response:
    """The result of `work`; it is cancelled, and ClientGone raised, when the client leaves."""
    doing = asyncio.create_task(work)
    leaving = asyncio.create_task(_left(http))
    try:
        await asyncio.wait({doing, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if not doing.done():
            raise ClientGone
        return doing.result()
    finally:
        for task in (doing, leaving):
            task.cancel()
        await asyncio.gather(doing, leaving, return_exceptions=True)


async def _left(http: HttpRequest) -> None:
    """Return when the client has closed its connection; the body is read by now."""
    while (await http.receive())["type"] != "http.disconnect":
        pass


def _refused(refusal: Refusal) -> Response:
    return JSONResponse(refusal.body(), refusal.status, refusal.headers)
