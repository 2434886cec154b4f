"""The lane as a process: the socket, loading beside it, signals, drain.

SIGTERM, SIGINT    nothing new; what is under way is answered within `drain_s`; exit 0
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import signal
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import structlog
import uvicorn

from serving.artifacts.packaged import ModelError
from serving.embeddings.app import Limits, Server
from serving.embeddings.encoder import Encoder

_log = structlog.get_logger("embeddings")


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Where to listen, and what a request may bring."""

    host: str
    port: int
    limits: Limits
    drain_s: int = 30
    key: str | None = field(default=None, repr=False)


class _Front(uvicorn.Server):
    """Uvicorn, whose own way would send itself the signal again after the drain: no exit 0."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.handle_exit, number, None)
        yield


async def serve(options: Options, load: Callable[[], Encoder]) -> int:
    """Serve until told to stop; the exit code. 1 where the model or the port cannot be had."""
    server = Server(options.limits, key=options.key)
    config = uvicorn.Config(
        server.app,
        host=options.host,
        port=options.port,
        log_config=None,
        access_log=False,
        lifespan="off",
        timeout_graceful_shutdown=options.drain_s,
    )
    front = _Front(config)
    model = asyncio.create_task(_serve_model(server, load, front))
    try:
        await front.serve()  # takes the signals, and answers what is under way
    except SystemExit:  # uvicorn's way to say that the port is taken; it has logged why
        return 1
    finally:
        model.cancel()
        [ended] = await asyncio.gather(model, return_exceptions=True)
        server.close()
    return 1 if isinstance(ended, ModelError) else 0


async def _serve_model(server: Server, load: Callable[[], Encoder], front: uvicorn.Server) -> None:
    """Load beside the socket, then compute passes until cancelled. No model: the server ends."""
    try:
        encoder = await asyncio.to_thread(load)
    except ModelError as error:
        _log.error("no model", reason=str(error))
        front.should_exit = True
        raise
    lane = await server.become_ready(encoder)
    gc.freeze()  # the model's objects stay: looking through them again and again costs pauses
    traits = lane.traits
    _log.info(
        "serving",
        model=traits.name,
        dimensions=traits.dimensions,
        dtype=traits.dtype,
        threads=traits.threads,
        pass_ms=round(lane.pass_s * 1000, 1),
    )
    try:
        await lane.run()
    finally:
        await lane.close()
