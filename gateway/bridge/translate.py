"""The gateway's side of the bridge: a Sender whose engine is the library's process.

A call is fitted to its deployment as a relayed one is (fit.py), so that the file's word counts the
same both ways. What comes back is in the client's dialect already; turn.py judges it, holds it,
passes it on and records it as it does with a relayed answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from gateway.bridge.call import Call, Head, decode_head, encode, frame, read_frame
from gateway.bridge.child import BridgeGone, Child
from gateway.config.config import Config, Deployment
from gateway.config.params import DEFAULTS
from gateway.exchange import Answer, AttemptFailed, Broken, Headers, NotConnected, Request, TimedOut
from gateway.fit import Fit

_FAILURES: Mapping[str, type[AttemptFailed]] = {
    failure.outcome: failure for failure in (NotConnected, Broken, TimedOut)
}
# litellm_params that the gateway itself acts on, or that would let the library route and retry.
_OURS_TEXT = (
    "model api_base api_key custom_llm_provider weight order rpm tpm max_parallel_requests timeout"
    " request_timeout stream_timeout cooldown_time drop_params additional_drop_params extra_body"
    " num_retries max_retries fallbacks context_window_fallbacks content_policy_fallbacks"
    " default_fallbacks max_fallbacks mock_response"
)
_OURS = frozenset(_OURS_TEXT.split())


class BridgedAnswer:
    """An answer of the bridge; see exchange.Answer."""

    __slots__ = ("_ended", "_error", "_reader", "_writer", "headers", "status")

    def __init__(
        self, head: Head, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self.status: int = head.status
        self.headers: Headers = [
            (k.encode("latin-1"), v.encode("latin-1")) for k, v in head.headers
        ]
        self._reader, self._writer = reader, writer
        self._error: BaseException | None = None
        self._ended = False

    def at_end(self) -> bool:
        return self._ended

    async def read(self) -> bytes:
        if self._ended:
            return b""
        try:
            data = await read_frame(self._reader)
        except (asyncio.IncompleteReadError, OSError):
            raise self._error or Broken("the provider's answer broke off") from None
        if not data:
            self._ended = True
        return data

    def abort(self, error: BaseException | None = None) -> None:
        self._error = self._error or error
        self._writer.transport.abort()


class BridgeSender:
    """Serves deployments through the LiteLLM library; see exchange.Sender."""

    def __init__(self, child: Child | None = None) -> None:
        self.child = child or Child()
        self._fits: dict[str, tuple[Deployment, Fit]] = {}

    def prepare(self, config: Config) -> None:
        """Load the library now if some deployment needs it: its provider is a bridged one.

        Else the first request that must be translated loads it.
        """
        if any(not deployment.relays for deployment in config.deployments):
            self.child.start()

    async def send(self, request: Request, deployment: Deployment) -> Answer:
        call = self._call(request, deployment)
        try:
            reader, writer = await asyncio.open_unix_connection(await self.child.address())
        except (BridgeGone, OSError) as gone:
            raise NotConnected(str(gone)) from gone
        try:
            writer.write(frame(encode(call)))
            head = decode_head(await read_frame(reader))
        except (asyncio.IncompleteReadError, OSError) as error:
            writer.transport.abort()
            raise Broken("the bridge ended during the call") from error
        except BaseException:  # raised again; only the connection is closed
            writer.transport.abort()  # cancelled: the provider's connection closes with this one
            raise
        if head.outcome:
            writer.transport.abort()
            raise _FAILURES[head.outcome](head.detail)
        return BridgedAnswer(head, reader, writer)

    async def close(self) -> None:
        """End the library's process."""
        await self.child.close()

    def _call(self, request: Request, deployment: Deployment) -> Call:
        known, fit = self._fits.get(deployment.id, (None, None))
        if fit is None or known is not deployment:
            fit = Fit.of(deployment)
            self._fits[deployment.id] = (deployment, fit)
        return Call(
            id=request.id.decode(),
            dialect=request.dialect,
            stream=request.stream,
            provider=deployment.provider,
            model=deployment.served_name,
            body=fit.body(request),
            api_base=deployment.api_base,
            api_key=deployment.api_key,
            speaks_chat="chat" in deployment.relays,
            params=_params(deployment),
            fixed=list(deployment.fixed),
            drop_params=bool(deployment.litellm_params.get("drop_params")),
            headers={k.decode("latin-1"): v.decode("latin-1") for k, v in request.headers.items()},
        )


def _params(deployment: Deployment) -> dict[str, Any]:
    """What the library must know to reach the provider: regions, projects, credentials."""
    given = deployment.litellm_params
    return {k: v for k, v in given.items() if k not in _OURS and k not in DEFAULTS}
