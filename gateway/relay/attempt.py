"""Attempt: one request to one engine, over the relay's HTTP client. Step 5.

The only file beside http1/ that touches that client: its errors become ours here.
"""

from __future__ import annotations

from gateway.config.config import Deployment
from gateway.exchange import Answer, Broken, Headers, NotConnected, Request
from gateway.fit import Fit, address, head, whole_head
from gateway.http1.client import Client, Response, Target
from gateway.http1.errors import ClientError, ConnectFailed


class _Line:
    """How to reach one deployment: made once, and again when a reload changes it."""

    __slots__ = ("deployment", "fit", "heads", "target")

    def __init__(self, deployment: Deployment) -> None:
        self.deployment, self.fit = deployment, Fit.of(deployment)
        self.target = Target(*address(deployment))
        self.heads = {dialect: head(deployment, dialect) for dialect in deployment.relays}


class EngineAnswer:
    """An answer of an engine; see exchange.Answer."""

    __slots__ = ("_response", "abort", "at_end", "headers", "status")

    def __init__(self, response: Response) -> None:
        self._response = response
        self.status: int = response.status
        self.headers: Headers = response.headers
        self.abort, self.at_end = response.abort, response.at_end

    async def read(self) -> bytes:
        try:
            return await self._response.read()
        except ClientError as error:
            raise Broken(str(error)) from error


class EngineSender:
    """Relays requests to engines that speak the client's dialect; see exchange.Sender."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._lines: dict[str, _Line] = {}

    async def send(self, request: Request, deployment: Deployment) -> Answer:
        line = self._lines.get(deployment.id)
        if line is None or line.deployment is not deployment:
            line = self._lines[deployment.id] = _Line(deployment)
        body = line.fit.body(request)
        start = whole_head(line.heads[request.dialect], request, len(body))
        try:
            return EngineAnswer(await self._client.post(line.target, start, body))
        except ConnectFailed as error:
            raise NotConnected(str(error)) from error
        except ClientError as error:
            raise Broken(str(error)) from error
